//! A connection to one run: inputs by paste buffers, screens by `capture-pane`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

use super::folder::{self, Last, Started, State};
use super::hub::Seen;
use super::server::Server;
use crate::error::Error;
use crate::log::acts;
use crate::runtime::{Input, Result, Run, Screen, Sight, Size, Taken, Task};

/// Buffers of this process; the process id tells them from those of others.
static BUFFERS: AtomicU64 = AtomicU64::new(0);

/// The pane's facts before its rows: height, cursor, highest input number, whose pane it is, and the second when
/// somebody last attached to its session or typed there.
pub(super) const FACTS: &str = "#{pane_height} #{cursor_y} #{cursor_x} #{@skein_input} #{@skein_run} \
     #{?session_last_attached,#{session_activity},0}";

/// Tests the number and takes it, with its paste, in one step: the server runs these without a break. The paste
/// comes first, so that the number is not taken when there is nothing to paste.
const TAKE: &str = "if-shell -F -t <pane> \
    '#{&&:#{==:#{@skein_run},<run>},#{e|<:#{@skein_input},<number>}}' \
    { <paste> set-option -p -t <pane> @skein_input <number> ; display-message -p skein-now } \
    { display-message -p -t <pane> 'skein-before #{@skein_run}' }";
/// From the file of the buffer's name in the run's folder; the server's client stands in the root.
const PASTE: &str =
    "load-buffer -b <buffer> runs/<run>/<buffer> ; <take> ; delete-buffer -b <buffer>";
const INSERT: &str = "paste-buffer -r <bracket> -b <buffer> -t <pane> ;";

#[derive(Debug)]
pub(super) struct TmuxRun {
    pub(super) name: String,
    pub(super) server: Arc<Server>,
    pub(super) seen: Arc<Seen>,
    pub(super) typing: Typing,
}

/// What a living pane says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) height: usize,
    pub(super) cursor: (u16, u16),
    pub(super) input: u64,
    /// When somebody attached or typed, in seconds since the epoch; 0 if nobody has.
    pub(super) typed_at: u64,
}

impl Facts {
    /// `None` when the pane is not there, or is another run's.
    pub(super) fn parse(text: &str, name: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let [height, row, column, input, run, typed_at] = words.as_slice() else {
            return None;
        };
        (*run == name).then_some(Self {
            height: height.parse().ok()?,
            cursor: (row.parse().ok()?, column.parse().ok()?),
            input: input.parse().ok()?,
            typed_at: typed_at.parse().unwrap_or(0),
        })
    }
}

/// Counts looks since the one before which somebody may have typed. tmux tells seconds, so that what is typed in the
/// second of a look is taken for later.
#[derive(Debug, Default)]
pub(super) struct Typing {
    looked: AtomicU64,
    count: AtomicU64,
}

impl Typing {
    /// How often somebody may have typed, as seen by a look that began at `began`.
    fn looked(&self, began: u64, typed_at: u64) -> u64 {
        let before = self.looked.swap(began, Ordering::Relaxed);
        let typed = u64::from(typed_at > 0 && typed_at >= before);
        self.count.fetch_add(typed, Ordering::Relaxed) + typed
    }
}

/// Seconds since the epoch.
fn now() -> u64 {
    u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or(0)
}

enum Place {
    Pane(Started),
    Over(Box<Last>),
}

impl TmuxRun {
    /// Where the run is now.
    fn place(&self) -> Result<Place> {
        let path = self.seen.folder().path();
        match self.seen.folder().look() {
            Ok(Some(State::Alive(started))) => Ok(Place::Pane(started)),
            Ok(Some(State::Over(last))) => Ok(Place::Over(last)),
            Ok(Some(State::Launching)) => Err(Error::unobserved("it is being launched")),
            Ok(None | Some(State::Gone(_) | State::Failed(_))) => Err(Error::Missing),
            Err(error) => Err(Error::unobserved(format!("cannot read {path:?}: {error}"))),
        }
    }

    fn pane(&self) -> Result<Started> {
        match self.place()? {
            Place::Pane(started) => Ok(started),
            Place::Over(last) => Err(Error::Over {
                exit: last.ending.into(),
            }),
        }
    }

    /// tmux did not know the pane: either the run ended meanwhile, or nothing is known.
    fn lost(&self, why: String) -> Error {
        match self.pane() {
            Ok(_) => Error::unobserved(format!("tmux says: {why}")),
            Err(error) => error,
        }
    }

    /// The highest input number the run took.
    pub(super) async fn learn_input(&self) -> Result<()> {
        let started = match self.place()? {
            Place::Pane(started) => started,
            Place::Over(_) => return Ok(()),
        };
        let ask = format!("display-message -p -t {} '{FACTS}'", started.pane);
        let answer = self.server.request(ask.into()).await?;
        let facts = answer.printed().map_err(|why| self.lost(why))?;
        let facts = facts
            .first()
            .map_or("", |l| std::str::from_utf8(l).unwrap_or(""));
        match Facts::parse(facts, &self.name) {
            Some(facts) => {
                self.seen.took(facts.input);
                Ok(())
            }
            None => match self.place()? {
                Place::Pane(_) => Err(Error::unobserved("tmux does not know the run's pane")),
                Place::Over(_) => Ok(()),
            },
        }
    }

    async fn put(&self, number: u64, bytes: Vec<u8>, bracket: &str) -> Result<Taken> {
        let started = self.pane()?;
        let file = BufferFile::new(self, &bytes)?;
        let template = if bytes.is_empty() { TAKE } else { PASTE };
        // No value holds the brackets of a placeholder.
        let lines = template
            .replace("<take>", TAKE)
            .replace("<number>", &number.to_string())
            .replace("<pane>", &started.pane)
            .replace("<run>", &self.name)
            .replace("<buffer>", &file.name)
            .replace("<paste>", if bytes.is_empty() { "" } else { INSERT })
            .replace("<buffer>", &file.name)
            .replace("<pane>", &started.pane)
            .replace("<bracket>", bracket)
            .into_bytes();
        let answer = self.server.request(lines).await?;
        let printed = answer.printed().map_err(|why| self.lost(why))?;
        let before = format!("skein-before {}", self.name);
        let taken = if printed.contains(&b"skein-now".as_slice()) {
            Taken::Now
        } else if printed.contains(&before.as_bytes()) {
            Taken::Before
        } else {
            return Err(self.lost("it is another run's pane".into()));
        };
        self.seen.took(number);
        Ok(taken)
    }
}

impl Run for TmuxRun {
    fn write(&self, number: u64, input: Input) -> Task<'_, Taken> {
        Box::pin(async move {
            match input {
                Input::Paste(text) => self.put(number, pasted(&text), "-p").await,
                Input::Keys(keys) => self.put(number, keys, "").await,
            }
        })
    }

    fn screen(&self) -> Task<'_, Screen> {
        Box::pin(async move {
            let pane = match self.place()? {
                Place::Over(last) => return Ok(last.screen()),
                Place::Pane(started) => started.pane,
            };
            let began = now();
            let ask = format!("display-message -p -t {pane} '{FACTS}' ; capture-pane -p -t {pane}");
            let answer = self.server.request(ask.into()).await?;
            let height = |facts: &str| Some(Facts::parse(facts, &self.name)?.height);
            let Some((facts, rows)) = answer.screen(height) else {
                return match self.place()? {
                    Place::Over(last) => Ok(last.screen()),
                    Place::Pane(_) => Err(Error::unobserved("tmux shows no screen")),
                };
            };
            let facts = Facts::parse(&facts, &self.name);
            let cursor = facts.map_or((0, 0), |facts| facts.cursor);
            let typed = self
                .typing
                .looked(began, facts.map_or(0, |facts| facts.typed_at));
            let count = self.seen.folder().count("live/count");
            Ok(Screen {
                rows: rows.iter().map(|row| shown(row)).collect(),
                cursor,
                bracketed_paste: count.bracketed_paste,
                bytes: count.bytes,
                typed,
            })
        })
    }

    fn resize(&self, size: Size) -> Task<'_, ()> {
        Box::pin(async move {
            let pane = self.pane()?.pane;
            let (cols, rows) = (size.cols.max(1), size.rows.max(1));
            // `resize-window` makes the size fixed; people who attach bring their own.
            let ask = format!(
                "resize-window -t {pane} -x {cols} -y {rows} ; \
                 set-option -w -t {pane} window-size latest"
            );
            let answer = self.server.request(ask.into()).await?;
            answer.printed().map(drop).map_err(|why| self.lost(why))
        })
    }

    fn sight(&self) -> watch::Receiver<Sight> {
        self.seen.sight()
    }
}

/// As a terminal pastes: line ends are carriage returns, and no character that acts is among it, so that the
/// text cannot close its own bracket.
fn pasted(text: &str) -> Vec<u8> {
    let text = text.replace("\r\n", "\n");
    let kept = text.chars().filter_map(|c| match c {
        '\n' | '\r' => Some('\r'),
        '\t' => Some('\t'),
        c if c.is_control() => None,
        c => Some(c),
    });
    kept.collect::<String>().into_bytes()
}

/// What is to be pasted, where the server can read it; gone when dropped, so that a server that wakes up late
/// finds nothing to paste.
struct BufferFile {
    name: String,
    /// `None` for nothing: tmux has no empty buffers.
    path: Option<PathBuf>,
}

impl BufferFile {
    fn new(run: &TmuxRun, bytes: &[u8]) -> Result<Self> {
        let number = BUFFERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("skein-{}-{number}", std::process::id());
        if bytes.is_empty() {
            return Ok(Self { name, path: None });
        }
        let path = run.seen.folder().file(&name);
        let file = Self {
            name,
            path: Some(path.clone()),
        };
        folder::private(&path, OpenOptions::new().create(true).truncate(true))
            .and_then(|mut open| open.write_all(bytes))
            .map_err(|error| Error::io("cannot write", path, error))?;
        Ok(file)
    }
}

impl Drop for BufferFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // It goes with the run's folder at the latest.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A row without what acts instead of being seen; tmux shows what it was given.
pub(super) fn shown(row: &str) -> String {
    let seen: String = row.chars().filter(|c| !acts(*c)).collect();
    seen.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_another_run_are_no_facts() {
        let facts = Facts::parse("24 3 7 5 default,a-1,1 109", "default,a-1,1");
        let expected = Facts {
            height: 24,
            cursor: (3, 7),
            input: 5,
            typed_at: 109,
        };
        assert_eq!(facts, Some(expected));
        assert_eq!(
            Facts::parse("24 3 7 5 default,a-1,2 109", "default,a-1,1"),
            None
        );
        assert_eq!(Facts::parse("    ", "default,a-1,1"), None);
    }

    #[test]
    fn typing_in_the_second_of_a_look_counts_with_the_next() {
        let typing = Typing::default();
        assert_eq!(typing.looked(100, 0), 0, "nobody ever");
        assert_eq!(typing.looked(101, 101), 1);
        assert_eq!(typing.looked(101, 101), 2, "before it or after it");
        assert_eq!(typing.looked(103, 101), 3, "likewise");
        assert_eq!(typing.looked(104, 101), 3);
        assert_eq!(
            Typing::default().looked(104, 101),
            1,
            "by whoever looks anew"
        );
    }

    #[test]
    fn pasted_text_holds_nothing_that_acts() {
        assert_eq!(
            pasted("a\r\nb\nc\td\x1b[201~\u{9b}\x03é"),
            "a\rb\rc\td[201~é".as_bytes()
        );
    }
}
