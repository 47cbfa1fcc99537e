//! Attaching: what a viewer sees, who types, and how one leaves.

use std::num::NonZeroU16;
use std::os::fd::OwnedFd;

use crate::stage::{Stage, file, impatient, shown, until};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use skein_domain::{Exit, RunHandle};
use skein_runtime::view::{AttachOptions, DetachReason, attach_on};
use skein_runtime::{Error, TerminalInput};

/// A terminal, and a user in front of it.
struct Seat {
    name: &'static str,
    keyboard: OwnedFd,
    /// What the viewer thinks is its terminal.
    terminal: Option<OwnedFd>,
    before: Termios,
    screen: vt100::Parser,
    raw: Vec<u8>,
}

impl Seat {
    fn new(name: &'static str, rows: u16, cols: u16) -> Self {
        let master =
            rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY)
                .unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let path = rustix::pty::ptsname(&master, vec![]).unwrap();
        let terminal: OwnedFd = std::fs::File::options()
            .read(true)
            .write(true)
            .open(path.to_str().unwrap())
            .unwrap()
            .into();
        impatient(&master);
        let size = |n| NonZeroU16::new(n).unwrap();
        let seat = Self {
            name,
            before: tcgetattr(&terminal).unwrap(),
            keyboard: master,
            terminal: Some(terminal),
            screen: vt100::Parser::new(size(rows), size(cols), 0),
            raw: vec![],
        };
        seat.resize(rows, cols);
        seat
    }

    fn resize(&self, rows: u16, cols: u16) {
        let size = Winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.keyboard, size).unwrap();
    }

    fn attach(
        &mut self,
        stage: &Stage,
        handle: &RunHandle,
        read_only: bool,
    ) -> tokio::task::JoinHandle<Result<DetachReason, Error>> {
        let options = AttachOptions {
            name: self.name.into(),
            take: false,
            read_only,
            yields: false,
        };
        self.attach_as(stage, handle, options)
    }

    fn attach_as(
        &mut self,
        stage: &Stage,
        handle: &RunHandle,
        options: AttachOptions,
    ) -> tokio::task::JoinHandle<Result<DetachReason, Error>> {
        let (root, handle) = (stage.root(), handle.clone());
        // The view has an opening of its own, as one that was started in the terminal has.
        let terminal = self.terminal.as_ref().unwrap().try_clone().unwrap();
        #[expect(clippy::disallowed_methods, reason = "the test waits for it")]
        tokio::spawn(async move { attach_on(&root, &handle, options, terminal).await })
    }

    fn types(&self, keys: &str) {
        assert_eq!(
            rustix::io::write(&self.keyboard, keys.as_bytes()).unwrap(),
            keys.len()
        );
    }

    fn look(&mut self) -> String {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = rustix::io::read(&self.keyboard, &mut buffer) {
            self.screen.process(&buffer[..count]);
            self.raw.extend_from_slice(&buffer[..count]);
        }
        self.screen.screen().contents()
    }

    async fn sees(&mut self, text: &str) {
        let mut seen = String::new();
        let what = format!("{} to see `{text}`", self.name);
        let until = until(&what, || {
            seen = self.look();
            seen.contains(text)
        });
        until.await;
    }

    fn is_as_before(&mut self) {
        self.look();
        assert!(!self.screen.screen().alternate_screen());
        assert!(!self.screen.screen().hide_cursor() && !self.screen.screen().bracketed_paste());
        let now = tcgetattr(self.terminal.as_ref().unwrap()).unwrap();
        assert_eq!(now.local_modes, self.before.local_modes);
        assert_eq!(now.input_modes, self.before.input_modes);
        assert_eq!(now.output_modes, self.before.output_modes);
    }
}

#[test]
fn a_viewer_sees_types_and_leaves_its_terminal_as_it_was() {
    Stage::with(async |stage| {
        let script = "printf '\\033[?2004h'; echo here; read x; echo got $x; exec cat";
        let (handle, run) = stage.start(script).await;
        shown(&*run, "here").await;
        for leave in ["\x11", "\x02d"] {
            let mut seat = Seat::new("ann", 24, 80);
            let view = seat.attach(&stage, &handle, false);
            seat.sees("here").await;
            seat.sees("you type").await;
            seat.types("hello\r");
            seat.sees(if leave == "\x11" {
                "got hello"
            } else {
                "hello"
            })
            .await;
            seat.types(leave);
            assert_eq!(view.await.unwrap().unwrap(), DetachReason::Detached);
            seat.is_as_before();
        }
        assert_eq!(run.sight().borrow().exit, None, "the run goes on");
    });
}

#[test]
fn a_literal_ctrl_b_reaches_the_program() {
    Stage::with(async |stage| {
        let script = "stty raw -echo; echo ready; head -c 3 | od -An -tx1 > got; exec cat";
        let (handle, _run) = stage.start(script).await;
        let mut seat = Seat::new("ann", 24, 80);
        let view = seat.attach(&stage, &handle, false);
        seat.sees("ready").await;
        seat.types("\x02\x02\x02x");
        assert_eq!(file(&stage.path("got")).await.trim(), "02 02 78");
        seat.types("\x11");
        view.await.unwrap().unwrap();
    });
}

#[test]
fn one_types_and_a_takeover_is_seen_by_all() {
    Stage::with(async |stage| {
        let (handle, run) = stage.start("echo here; exec cat > got").await;
        let (mut ann, mut bob, mut eve) = (
            Seat::new("ann", 24, 80),
            Seat::new("bob", 30, 100),
            Seat::new("eve", 10, 40),
        );
        let ann_view = ann.attach(&stage, &handle, false);
        ann.sees("you type").await;
        let bob_view = bob.attach(&stage, &handle, false);
        bob.sees("ann types").await;
        let eve_view = eve.attach(&stage, &handle, true);
        eve.sees("ann types").await;
        ann.sees("3 viewers").await;
        bob.types("not mine\r");
        eve.types("nor mine\r\x02t");
        ann.types("anns words\r");
        bob.sees("anns words").await;

        bob.types("\x02t");
        ann.sees("bob took over").await;
        eve.sees("bob took over").await;
        bob.sees("you type").await;
        ann.types("too late\r");
        bob.types("bobs words\r");
        ann.sees("bobs words").await;
        // The terminal is as large as the typist's, without its last row.
        let screen = run.screen().await.unwrap();
        assert_eq!(screen.rows.len(), 29);

        bob.types("\x11");
        assert_eq!(bob_view.await.unwrap().unwrap(), DetachReason::Detached);
        ann.sees("you type").await;
        ann.types("\x11");
        ann_view.await.unwrap().unwrap();
        eve.sees("no viewer types").await;
        eve.types("\x02d");
        eve_view.await.unwrap().unwrap();
        run.write(1, TerminalInput::Keys(b"end\r".to_vec()))
            .await
            .unwrap();
        let got = stage.path("got");
        let read = || std::fs::read_to_string(&got).unwrap();
        until("the last line", || read().ends_with("end\n")).await;
        assert_eq!(read(), "anns words\nbobs words\nend\n");
    });
}

/// A window that is open all the time keeps no viewer from typing, and gets the keyboard back last.
#[test]
fn a_viewer_that_yields_types_only_while_no_other_does() {
    Stage::with(async |stage| {
        let (handle, run) = stage.start("echo here; exec cat > got").await;
        let (mut window, mut ann, mut bob) = (
            Seat::new("window", 24, 80),
            Seat::new("ann", 30, 100),
            Seat::new("bob", 24, 80),
        );
        let options = AttachOptions {
            name: "window".into(),
            take: false,
            read_only: false,
            yields: true,
        };
        window.attach_as(&stage, &handle, options);
        window.sees("you type").await;
        window.types("windows words\r");
        window.sees("windows words").await;

        let ann_view = ann.attach(&stage, &handle, false);
        ann.sees("you type").await;
        window.sees("ann types").await;
        assert_eq!(run.screen().await.unwrap().rows.len(), 29);
        let bob_view = bob.attach(&stage, &handle, false);
        bob.sees("ann types").await;
        window.types("not the windows\r");
        ann.types("anns words\r");
        bob.sees("anns words").await;

        // Bob came after the window, and does not yield.
        ann.types("\x11");
        ann_view.await.unwrap().unwrap();
        bob.sees("you type").await;
        window.sees("bob types").await;
        window.types("\x02t");
        window.sees("you type").await;
        bob.sees("window took over").await;
        bob.types("\x11");
        bob_view.await.unwrap().unwrap();
        window.types("again\r");
        let got = stage.path("got");
        let read = || std::fs::read_to_string(&got).unwrap();
        until("the last line", || read().ends_with("again\n")).await;
        assert_eq!(read(), "windows words\nanns words\nagain\n");
    });
}

#[test]
fn a_change_of_the_viewers_size_reaches_the_program() {
    Stage::with(async |stage| {
        let script = "while :; do stty size > size.new; mv size.new size; sleep 0.05; done";
        let (handle, _run) = stage.start(script).await;
        let mut seat = Seat::new("ann", 24, 80);
        let view = seat.attach(&stage, &handle, false);
        seat.sees("you type").await;
        let size = stage.path("size");
        let is = |wanted: &str| std::fs::read_to_string(&size).is_ok_and(|s| s.trim() == wanted);
        until("the viewer's size", || is("23 80")).await;
        seat.resize(40, 90);
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::WINCH).unwrap();
        until("the new size", || is("39 90")).await;
        seat.types("\x11");
        view.await.unwrap().unwrap();
    });
}

#[test]
fn the_end_of_the_run_ends_the_view() {
    Stage::with(async |stage| {
        let (handle, _run) = stage.start("echo here; read x; exit 5").await;
        let mut seat = Seat::new("ann", 24, 80);
        let view = seat.attach(&stage, &handle, false);
        seat.sees("here").await;
        seat.types("\r");
        assert_eq!(
            view.await.unwrap().unwrap(),
            DetachReason::RunOver(Exit::Code(5))
        );
        seat.is_as_before();
        // A viewer that comes later gets the end at once.
        let view = seat.attach(&stage, &handle, false);
        assert_eq!(
            view.await.unwrap().unwrap(),
            DetachReason::RunOver(Exit::Code(5))
        );
        let missing: RunHandle = "pty:default/api-1/9".parse().unwrap();
        let view = seat.attach(&stage, &missing, false);
        assert!(matches!(view.await.unwrap(), Err(Error::Missing)));
    });
}

#[test]
fn l15_no_escape_of_the_program_reaches_a_viewer() {
    Stage::with(async |stage| {
        let script = "printf '\\033]0;EVIL\\007\\033]52;c;RVZJTA==\\007\\033[6n\\033[c\\033PEVIL\\033\\\\\\033[21t'; \
                      printf '\\033[8;5;5t\\033]8;;http://EVIL\\033\\\\link\\033]8;;\\033\\\\'; \
                      echo done; exec cat";
        let (handle, _run) = stage.start(script).await;
        let mut seat = Seat::new("ann", 24, 80);
        let view = seat.attach(&stage, &handle, false);
        seat.sees("done").await;
        seat.types("\x11");
        view.await.unwrap().unwrap();
        seat.look();
        let raw = String::from_utf8_lossy(&seat.raw);
        for bad in [
            "EVIL",
            "RVZJTA",
            "\x1b]",
            "\x1bP",
            "\x1b[6n",
            "\x1b[c",
            "\x1b[21t",
            "\x1b[8;5;5t",
        ] {
            assert!(!raw.contains(bad), "{bad:?} in {raw:?}");
        }
    });
}
