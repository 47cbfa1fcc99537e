//! `attach` on a real terminal: tmux is the terminal, and its panes tell what people would see.

use std::fs;
use std::path::PathBuf;

use crate::delivery::post::{FINAL, post, taken};
use crate::harness::{Fleet, eventually, text};

const SKEIN: &str = env!("CARGO_BIN_EXE_skein");

/// A terminal of 100 by 30 with a shell line in it. It ends with its fleet, whose mark it carries.
struct Outer<'a> {
    fleet: &'a Fleet,
    name: String,
}

impl<'a> Outer<'a> {
    /// Runs `line` once everything the terminal is sent is also in [`Outer::stream`].
    fn open(fleet: &'a Fleet, name: &str, line: &str) -> Self {
        let outer = Self {
            fleet,
            name: name.to_owned(),
        };
        let go = outer.file("go");
        let line = format!(
            "while [ ! -e {} ]; do sleep 0.05; done; {line}; exec sleep 1000",
            go.display()
        );
        let shell = ["sh", "-c", &line];
        let new = ["new-session", "-d", "-s", name, "-x", "100", "-y", "30"];
        outer.tmux(&[&new[..], &shell].concat());
        outer.tmux(&["set-option", "-g", "status", "off"]);
        outer.tmux(&["set-option", "-t", name, "window-size", "manual"]);
        let pipe = format!("cat > {}", outer.file("stream").display());
        outer.tmux(&["pipe-pane", "-t", name, &pipe]);
        eventually(
            || outer.file("stream").exists().then_some(()),
            || "no stream".into(),
        );
        fs::write(go, "").unwrap();
        outer
    }

    /// Attached to the session, with the terminal's settings before and after in files.
    fn attach(fleet: &'a Fleet, name: &str, session: &str) -> Self {
        let file = |what: &str| fleet.home.user().join(format!("{name}.{what}"));
        let line = format!(
            "stty -g > {}; {SKEIN} attach {session}; echo \"LEFT WITH $?\"; stty -g > {}",
            file("before").display(),
            file("after").display()
        );
        Self::open(fleet, name, &line)
    }

    fn file(&self, what: &str) -> PathBuf {
        self.fleet.home.user().join(format!("{}.{what}", self.name))
    }

    fn tmux(&self, args: &[&str]) -> String {
        let socket = self.fleet.home.user().join("outer.sock");
        let output = self
            .fleet
            .home
            .program("tmux")
            .env("TERM", "xterm-256color")
            .args(["-S", socket.to_str().unwrap(), "-f", "/dev/null"])
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", &self.name], keys].concat());
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", &self.name])
    }

    fn until(&self, wanted: &str) -> String {
        eventually(
            || Some(self.screen()).filter(|screen| screen.contains(wanted)),
            || format!("no {wanted:?} in\n{}", self.screen()),
        )
    }

    fn until_no(&self, unwanted: &str) {
        eventually(
            || (!self.screen().contains(unwanted)).then_some(()),
            || format!("{unwanted:?} in\n{}", self.screen()),
        );
    }

    /// As it was before: cooked, the usual screen, the cursor shown, no mouse, no pastes.
    fn assert_restored(&self) {
        eventually(
            || self.file("after").exists().then_some(()),
            || self.screen(),
        );
        let read = |what: &str| fs::read_to_string(self.file(what)).unwrap();
        eventually(
            || (read("before") == read("after")).then_some(()),
            || format!("{} became {}", read("before"), read("after")),
        );
        let flags = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_cursor_flag}";
        let shown = self.tmux(&["display-message", "-p", "-t", &self.name, flags]);
        assert_eq!(shown.trim(), "0 1 0 0");
    }
}

fn agent(fleet: &Fleet) -> String {
    let session = fleet.spawn("say hello from the agent", &[]);
    fleet.until_status(&session, "idle");
    session
}

#[test]
fn an_attached_terminal_shows_types_and_is_left_as_it_was() {
    let fleet = Fleet::new();
    let session = agent(&fleet);
    for (name, leave) in [("one", &["C-q"][..]), ("two", &["C-b", "d"])] {
        let outer = Outer::attach(&fleet, name, &session);
        outer.until("hello from the agent");
        outer.until("you type");
        let message = format!("say typed in {name}");
        outer.keys(&["-l", &message]);
        outer.until(&format!("> {message}"));
        outer.keys(&["Enter"]);
        outer.until(&format!("» {message}"));
        outer.keys(leave);
        outer.until("LEFT WITH 0");
        outer.assert_restored();
    }
    assert_eq!(
        taken(&fleet, &session, "say hello from the agent"),
        ["say typed in one", "say typed in two"]
    );
    fleet.until_status(&session, "idle");
}

#[test]
fn several_look_on_one_types_and_all_see_who() {
    let fleet = Fleet::new();
    let session = agent(&fleet);
    let first = Outer::attach(&fleet, "first", &session);
    first.until("you type");
    let second = Outer::attach(&fleet, "second", &session);
    second.until("Ctrl-b t takes over");
    second.until("2 viewers");
    first.until("2 viewers");
    second.keys(&["-l", "from the second"]);
    first.keys(&["-l", "from the first"]);
    second.until("> from the first");
    assert!(!first.screen().contains("from the second"));
    second.keys(&["C-b", "t"]);
    second.until("you type");
    first.until("Ctrl-b t takes over");
    first.keys(&["-l", " ignored"]);
    second.keys(&["-l", " and the second"]);
    first.until("> from the first and the second");
    second.keys(&["C-q"]);
    second.until("LEFT WITH 0");
    first.until_no("2 viewers");
    first.keys(&["C-q"]);
    first.until("LEFT WITH 0");
}

#[test]
fn a_message_that_meets_somebodys_text_waits_and_says_so() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say hello", &[]);
    fleet.until_status(&session, "idle");
    let outer = Outer::attach(&fleet, "outer", &session);
    outer.until("[ready]");
    outer.keys(&["-l", "half a thought"]);
    outer.until("> half a thought");
    let sent = post(&fleet, &session, "say it");
    eventually(
        || {
            let why = fleet.run(&["why", &session]).stdout;
            why.contains("is in its input box").then_some(())
        },
        || fleet.run(&["why", &session]).stdout,
    );
    // Nobody but a person can help that on, so nobody else waits for it.
    let rests = fleet.json(&["wait", &session, "--until", "idle", "--timeout", "60s"]);
    assert_eq!(
        (&rests["queued"], &rests["draft"]),
        (&1.into(), &true.into())
    );
    outer.keys(&["C-u"]);
    fleet.until_receipt(&sent.receipt, &["submitted", "turn_started"]);
}

/// What lay in the box left it, but not as a message.
#[test]
fn l6_a_draft_that_a_viewer_cleared_is_not_called_submitted() {
    let fleet = Fleet::new();
    let start = "SCRIPTED_START=swallow-enter 100";
    let args = ["--env", start, "--prompt-via", "argv"];
    let session = fleet.spawn("say hello", &args);
    fleet.until_status(&session, "idle");
    let outer = Outer::attach(&fleet, "outer", &session);
    outer.until("[ready]");
    let sent = post(&fleet, &session, "say it");
    fleet.until_receipt(&sent.receipt, &["echoed"]);
    outer.until("> say it");
    outer.keys(&["C-u"]);
    outer.until_no("> say it");
    let receipt = fleet.until_receipt(&sent.receipt, &FINAL);
    assert_eq!(receipt["state"], "unknown", "{receipt}");
    assert_eq!(taken(&fleet, &session, "say hello"), [""; 0]);
}

#[test]
fn a_resized_terminal_is_seen_by_the_agent() {
    let fleet = Fleet::new();
    let command = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done";
    let session = text(
        &fleet.json(&[
            "spawn",
            "--project",
            "api",
            "--agent",
            "custom",
            "--command",
            command,
            "x",
        ])["id"],
    );
    let outer = Outer::attach(&fleet, "outer", &session);
    outer.until("29 100");
    outer.tmux(&["resize-window", "-t", "outer", "-x", "80", "-y", "20"]);
    outer.until("19 80");
    outer.keys(&["C-q"]);
    outer.until("LEFT WITH 0");
}

#[test]
fn an_attach_ends_with_its_run_and_says_how() {
    let fleet = Fleet::new();
    let session = agent(&fleet);
    let outer = Outer::attach(&fleet, "outer", &session);
    outer.until("you type");
    post(&fleet, &session, "exit 3");
    let screen = outer.until("LEFT WITH 0");
    assert!(screen.contains("exited with code 3"), "{screen}");
    outer.assert_restored();
    fleet.until_status(&session, "failed");
    let ran = fleet.run(&["attach", &session]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stderr.contains("skein restore"), "{ran:?}");
}

#[test]
fn escape_attacks_do_not_reach_the_viewers_terminal() {
    let fleet = Fleet::new();
    let session = agent(&fleet);
    let outer = Outer::attach(&fleet, "outer", &session);
    outer.until("you type");
    outer.keys(&["-l", "garbage 16; say all of it"]);
    outer.keys(&["Enter"]);
    outer.until("all of it");
    fleet.until_status(&session, "idle");
    outer.keys(&["C-q"]);
    outer.until("LEFT WITH 0");
    eventually(
        || {
            let seen = fs::read(outer.file("stream")).unwrap();
            String::from_utf8_lossy(&seen)
                .contains("LEFT WITH 0")
                .then_some(())
        },
        || "the stream does not end".into(),
    );
    let stream = fs::read(outer.file("stream")).unwrap();
    let stream = String::from_utf8_lossy(&stream);
    for attack in [
        "\x1b]0;", "\x1b]2;", "\x1b]52", "\x1b]8", "\x1bP", "stolen", "\x1b[c", "\x1b[>c",
        "\x1b[6n", "\x1b[5n", "\x1b[14t",
    ] {
        assert!(!stream.contains(attack), "{attack:?} reached the terminal");
    }
    let title = outer.tmux(&["display-message", "-p", "-t", "outer", "#{pane_title}"]);
    assert!(!title.contains("stolen"), "{title}");
}
