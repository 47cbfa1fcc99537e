//! People at a run: the first types, others look on, and nobody's terminal is attacked.

use std::io::{Read, Write};
use std::process::Child;
use std::sync::{Arc, Mutex};

use pty_process::blocking::{Command, Pty, open};
use skein_runtime::runtime::Runtime;
use skein_runtime::tmux::{Attach, TmuxRuntime};

use crate::home::{clear, fresh, shown, until};

/// A person's terminal with tmux in it.
struct Viewer {
    pty: Arc<Pty>,
    child: Child,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Viewer {
    fn new(tmux: &TmuxRuntime, handle: &skein_domain::RunHandle, attach: Attach) -> Self {
        let words = tmux.attach_command(handle, attach).unwrap();
        let (pty, pts) = open().unwrap();
        pty.resize(pty_process::Size::new(24, 80)).unwrap();
        let child = Command::new(&words[0])
            .args(&words[1..])
            .env("TERM", "xterm-256color")
            .env_remove("TMUX")
            .spawn(pts)
            .unwrap();
        let (pty, seen) = (Arc::new(pty), Arc::new(Mutex::default()));
        let (reader, kept) = (Arc::clone(&pty), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = (&*reader).read(&mut buffer) {
                let mut kept: std::sync::MutexGuard<'_, Vec<u8>> = kept.lock().unwrap();
                kept.extend_from_slice(&buffer[..count]);
            }
        });
        Self { pty, child, seen }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    async fn sees(&self, text: &str) {
        until(&format!("`{text}` at the viewer"), || {
            self.text().contains(text)
        })
        .await;
    }

    fn types(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    async fn ended(&mut self) {
        let child = &mut self.child;
        until("the viewer's end", || child.try_wait().unwrap().is_some()).await;
    }

    /// Presses the keys one by one, as slowly as people do: tmux takes what comes at once for a paste, in which
    /// keys mean nothing.
    async fn leaves_by(&mut self, keys: &[&str]) {
        let deadline = std::time::Instant::now() + crate::home::PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            assert!(std::time::Instant::now() < deadline, "{keys:?} do nothing");
            for key in keys {
                // It may have left meanwhile.
                let _ = (&*self.pty).write_all(key.as_bytes());
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

const READER: &str = "echo ready; while read -r line; do echo \"got $line\"; done";

#[tokio::test]
async fn the_first_types_others_look_on_and_a_takeover_is_seen() {
    let home = fresh();
    let tmux = home.tmux();
    let handle = tmux.launch(home.shell(1, READER)).await.unwrap();
    let run = tmux.connect(&handle).await.unwrap();
    shown(&*run, "ready").await;

    let mut first = Viewer::new(&tmux, &handle, Attach::Join);
    first.sees("ready").await;
    let mut second = Viewer::new(&tmux, &handle, Attach::Join);
    second.sees("ready").await;
    second.types("second\r");
    first.types("first\r");
    first.sees("got first").await;
    second.sees("got first").await;
    let rows = run.screen().await.unwrap().rows.join("\n");
    assert!(!rows.contains("second"), "{rows}");

    let mut third = Viewer::new(&tmux, &handle, Attach::Take);
    for gone in [&mut first, &mut second] {
        gone.sees("somebody else took the keyboard").await;
        gone.ended().await;
    }
    third.types("third\r");
    third.sees("got third").await;
    third.leaves_by(&["\x11"]).await;

    let mut fourth = Viewer::new(&tmux, &handle, Attach::LookOn);
    fourth.sees("got third").await;
    fourth.types("fourth\r");
    fourth.leaves_by(&["\x02", "d"]).await;
    let rows = run.screen().await.unwrap().rows.join("\n");
    assert!(!rows.contains("fourth"), "{rows}");
    clear(&tmux).await;
}

#[tokio::test]
async fn l15_what_a_program_prints_cannot_attack_a_viewer() {
    let home = fresh();
    let tmux = home.tmux();
    let script = "stty -echo; read -r start; \
        printf '\\033]0;EVIL\\007\\033]2;EVIL\\033\\\\\\033]52;c;RVZJTA==\\007'; \
        printf '\\033Ptmux;\\033\\033]52;c;RVZJTA==\\007\\033\\\\\\033kEVIL\\033\\\\'; \
        printf '\\033_EVIL\\033\\\\\\033^EVIL\\033\\\\\\033XEVIL\\033\\\\'; \
        printf '\\033[21t\\033[8;5;5t\\033[6n\\033[c'; \
        echo done; read -r rest";
    let handle = tmux.launch(home.shell(1, script)).await.unwrap();
    let mut viewer = Viewer::new(&tmux, &handle, Attach::Join);
    until("the viewer's screen", || !viewer.text().is_empty()).await;
    viewer.types("start\r");
    viewer.sees("done").await;
    let text = viewer.text();
    for attack in [
        "EVIL",
        "RVZJTA",
        "\x1b]52",
        "\x1b]0;",
        "\x1b]2;",
        "\x1b[8;5;5t",
    ] {
        assert!(!text.contains(attack), "{attack:?} in {text:?}");
    }
    clear(&tmux).await;
    viewer.ended().await;
}
