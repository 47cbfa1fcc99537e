//! The scripted program on a real pseudo-terminal, and what a terminal would show of it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use skein_agent::{Agent, Draft, Picture, Reading, Scripted};
use skein_domain::Activity;
use tempfile::TempDir;

static SCRIPTED: LazyLock<Scripted> = LazyLock::new(Scripted::new);

/// Far longer than anything takes; a machine may be busy.
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const ROWS: u16 = 30;
const COLUMNS: u16 = 100;

pub(crate) struct Terminal {
    child: Child,
    master: File,
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
    pub(crate) home: Arc<TempDir>,
}

struct Shared {
    seen: Mutex<Seen>,
    news: Condvar,
}

struct Seen {
    parser: vt100::Parser,
    raw: Vec<u8>,
    over: bool,
}

/// How a program is to be started.
pub(crate) struct Setup {
    pub(crate) home: Arc<TempDir>,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let home = TempDir::new().unwrap();
        fs::create_dir(home.path().join("work")).unwrap();
        Self {
            home: Arc::new(home),
            args: vec![],
            env: vec![],
        }
    }

    /// With a behaviour from its start.
    pub(crate) fn start(mut self, behaviour: &str) -> Self {
        self.env.push(("SCRIPTED_START".into(), behaviour.into()));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|&arg| arg.to_owned()));
        self
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skein-scripted"));
        command
            .arg("--private")
            .arg(self.home.path().join("private"))
            .args(&self.args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.home.path())
            .envs(self.env.iter().map(|(k, v)| (k.as_str(), v.as_str())))
            .current_dir(self.home.path().join("work"));
        command
    }

    pub(crate) fn run(self) -> Terminal {
        Terminal::new(self)
    }
}

impl Terminal {
    fn new(setup: Setup) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = PathBuf::from(ptsname(&master, vec![]).unwrap().into_string().unwrap());
        let size = Winsize {
            ws_row: ROWS,
            ws_col: COLUMNS,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let slave: OwnedFd = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(rustix::fs::OFlags::NOCTTY.bits().cast_signed())
            .open(name)
            .unwrap()
            .into();
        let mut command = setup.command();
        command
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave);
        let child = command.spawn().unwrap();
        drop(command);
        let shared = Arc::new(Shared {
            seen: Mutex::new(Seen {
                parser: vt100::Parser::new(
                    NonZero::new(ROWS).unwrap(),
                    NonZero::new(COLUMNS).unwrap(),
                    0,
                ),
                raw: vec![],
                over: false,
            }),
            news: Condvar::new(),
        });
        let master = File::from(master);
        let reader = {
            let (mut master, shared) = (master.try_clone().unwrap(), shared.clone());
            thread::spawn(move || shared.read(&mut master))
        };
        Self {
            child,
            master,
            shared,
            reader: Some(reader),
            home: setup.home,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn keys(&mut self, keys: impl AsRef<[u8]>) {
        // A program that is gone takes no more; the test sees that elsewhere.
        let _ = self.master.write_all(keys.as_ref());
    }

    /// As a runtime pastes: in brackets, if the program asked for them.
    pub(crate) fn paste(&mut self, text: &str) {
        let brackets = self
            .shared
            .seen
            .lock()
            .unwrap()
            .parser
            .screen()
            .bracketed_paste();
        if brackets {
            self.keys(format!("\x1b[200~{text}\x1b[201~"));
        } else {
            self.keys(text);
        }
    }

    /// A prompt as the courier brings it: pasted, seen, submitted.
    pub(crate) fn prompt(&mut self, text: &str) {
        self.until_ready();
        self.paste(text);
        self.until("the draft is there", |screen| {
            screen.draft() != Draft::Empty
        });
        self.keys("\r");
    }

    /// Waits until the screen is as wanted; shows it when that does not come.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&Screen) -> bool) -> Screen {
        let deadline = Instant::now() + LONG;
        let mut seen = self.shared.seen.lock().unwrap();
        loop {
            let screen = Screen::of(&seen);
            if wanted(&screen) {
                return screen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero() && !seen.over,
                "waited for: {what}\n{}",
                screen.rows.join("\n")
            );
            seen = self.shared.news.wait_timeout(seen, left).unwrap().0;
        }
    }

    pub(crate) fn until_shows(&self, text: &str) -> Screen {
        self.until(text, |screen| screen.shows(text))
    }

    pub(crate) fn until_ready(&self) -> Screen {
        self.until("ready", |screen| screen.activity() == Some(Activity::Ready))
    }

    /// Waits for the end of a turn with this number.
    pub(crate) fn until_turn(&self, turn: u64) -> Screen {
        self.until_shows(&format!("[ready] turns {turn} "))
    }

    pub(crate) fn exit(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LONG;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn raw(&self) -> Vec<u8> {
        self.shared.seen.lock().unwrap().raw.clone()
    }

    /// Waits until these bytes were written so often.
    pub(crate) fn until_raw(&self, part: &[u8], times: usize) {
        let deadline = Instant::now() + LONG;
        let mut seen = self.shared.seen.lock().unwrap();
        while seen.raw.windows(part.len()).filter(|w| *w == part).count() < times {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !seen.over, "waited for {part:?}");
            seen = self.shared.news.wait_timeout(seen, left).unwrap().0;
        }
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.home.path().join("work").join(name)
    }

    /// The lines of a file in its private folder.
    pub(crate) fn journal(&self, name: &str) -> Vec<Value> {
        let path = self.home.path().join("private").join(name);
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    /// Every prompt that ever reached it.
    pub(crate) fn prompts(&self) -> Vec<String> {
        let lines = self.journal("prompts.jsonl");
        for (index, line) in lines.iter().enumerate() {
            assert_eq!(line["turn"], index as u64 + 1);
        }
        let text = |line: &Value| line["prompt"].as_str().unwrap().to_owned();
        lines.iter().map(text).collect()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Shared {
    fn read(&self, master: &mut File) {
        let mut buffer = vec![0; 64 * 1024];
        // The other side is closed: EIO.
        while let Ok(n @ 1..) = master.read(&mut buffer) {
            let mut seen = self.seen.lock().unwrap();
            seen.parser.process(&buffer[..n]);
            // Enough to look into, and no more: a flood is long.
            let room = (8 << 20) - seen.raw.len().min(8 << 20);
            seen.raw.extend_from_slice(&buffer[..n.min(room)]);
            self.news.notify_all();
        }
        self.seen.lock().unwrap().over = true;
        self.news.notify_all();
    }
}

#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) rows: Vec<String>,
    cursor: (u16, u16),
    pub(crate) readings: Vec<Reading>,
}

impl Screen {
    fn of(seen: &Seen) -> Self {
        let screen = seen.parser.screen();
        let rows: Vec<String> = screen
            .rows(0, COLUMNS)
            .map(|row| row.trim_end().to_owned())
            .collect();
        let cursor = screen.cursor_position();
        let picture = Picture {
            rows: &rows,
            cursor,
            title: None,
        };
        let readings = SCRIPTED.read_screen(picture);
        Self {
            rows,
            cursor,
            readings,
        }
    }

    pub(crate) fn shows(&self, text: &str) -> bool {
        self.rows.iter().any(|row| row.contains(text))
    }

    pub(crate) fn draft(&self) -> Draft {
        SCRIPTED.draft(Picture {
            rows: &self.rows,
            cursor: self.cursor,
            title: None,
        })
    }

    pub(crate) fn activity(&self) -> Option<Activity> {
        self.readings.iter().find_map(|reading| match reading {
            Reading::Activity { activity, .. } => Some(*activity),
            _ => None,
        })
    }
}
