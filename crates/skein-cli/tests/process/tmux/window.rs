//! A window's life: it opens with a run, shows it, and goes with it.

use crate::harness::{Fleet, alive, end, eventually};
use crate::tmux::screen::{Person, Tmux, command, pid, shown};

#[test]
fn a_window_is_named_after_its_session_shows_it_and_takes_the_users_keys() {
    let fleet = Fleet::new();
    let session = shown(&fleet, "say hello", &[]);
    let tmux = Tmux::of(&fleet);
    assert_eq!(tmux.windows(), ["api-1:0 api-1"]);
    assert_eq!(fleet.show(&session)["runtime"]["kind"], "tmux");
    tmux.until_shows("api-1", "hello");
    tmux.types("api-1", "say typed at the window");
    tmux.until_shows("api-1", "» say typed at the window");
    fleet.until_status(&session, "idle");
    fleet.json(&["send", &session, "say sent", "--wait"]);
    fleet.until_status(&session, "idle");
    // The view typed nothing of its own.
    let prompts = ["say hello", "say typed at the window", "say sent"];
    assert_eq!(fleet.prompts(&session), prompts);
}

#[test]
fn people_attach_with_the_command_that_show_prints_and_leave_the_window_behind() {
    let fleet = Fleet::new();
    let session = shown(&fleet, "say hello", &[]);
    for (n, leave) in [&["C-q"][..], &["C-b", "d"]].into_iter().enumerate() {
        let person = Person::runs(&fleet, &format!("person-{n}"), &command(&fleet, &session));
        person.sees("hello");
        let line = format!("say typed by a person {n}");
        person.types(&line);
        person.sees(&format!("» {line}"));
        // tmux takes keys that come at once for a paste.
        for key in leave {
            person.presses(&[key]);
        }
        person.leaves();
        assert_eq!(Tmux::of(&fleet).windows(), ["api-1:0 api-1"]);
    }
    let prompts = [
        "say hello",
        "say typed by a person 0",
        "say typed by a person 1",
    ];
    assert_eq!(fleet.prompts(&session), prompts);
}

#[test]
fn skein_attach_gets_the_keyboard_from_a_window_and_the_window_gets_it_back() {
    let fleet = Fleet::new();
    let session = shown(&fleet, "say hello", &[]);
    let tmux = Tmux::of(&fleet);
    tmux.until_shows("api-1", "you type");
    let attach = format!("{} attach {session}", env!("CARGO_BIN_EXE_skein"));
    let ann = Person::runs(&fleet, "ann", &attach);
    ann.sees("you type");
    tmux.until_shows("api-1", "Ctrl-b t takes over");
    ann.types("say from elsewhere");
    ann.sees("» say from elsewhere");
    ann.presses(&["C-q"]);
    ann.leaves();
    tmux.until_shows("api-1", "you type");

    // The key that the status line names works in tmux too, whose prefix it begins with.
    let bob = Person::runs(&fleet, "bob", &attach);
    bob.sees("you type");
    let eve = Person::runs(&fleet, "eve", &command(&fleet, &session));
    eve.sees("Ctrl-b t takes over");
    eve.presses(&["C-b"]);
    eve.presses(&["t"]);
    eve.sees("you type");
    bob.sees("tmux types");
    assert_eq!(fleet.prompts(&session), ["say hello", "say from elsewhere"]);
}

#[test]
fn l3_a_window_that_is_closed_takes_only_the_view_away() {
    let fleet = Fleet::new();
    let session = shown(&fleet, "say hello", &[]);
    let agent = pid(&fleet.show(&session));
    let tmux = Tmux::of(&fleet);
    tmux.run(&["kill-window", "-t", "api-1:0"]);
    tmux.until_windows(&[]);
    fleet.json(&["send", &session, "say again", "--wait"]);
    let idle = fleet.until_status(&session, "idle");
    assert_eq!((pid(&idle), &idle["run"]), (agent, &1.into()));
    // Nothing is wrong: a person closed it.
    assert!(idle["runtime"]["window"]["problem"].is_null(), "{idle}");

    let restored = fleet.json(&["restore", &session]);
    assert_eq!(restored["run"], 1, "the agent is not started again");
    tmux.until_windows(&["api-1:0 api-1"]);
    tmux.until_shows("api-1", "again");
    assert_eq!(pid(&fleet.show(&session)), agent);
    assert_eq!(fleet.prompts(&session), ["say hello", "say again"]);
}

#[test]
fn l3_a_tmux_server_that_is_killed_takes_no_agent_with_it() {
    let fleet = Fleet::new();
    let sessions = [shown(&fleet, "say one", &[]), shown(&fleet, "say two", &[])];
    let agents = sessions.clone().map(|session| pid(&fleet.show(&session)));
    let tmux = Tmux::of(&fleet);
    let server = tmux.server();
    end(server);
    eventually(|| (!alive(server)).then_some(()), || "it lives".into());
    for session in &sessions {
        fleet.json(&["send", session, "say again", "--wait"]);
        fleet.until_status(session, "idle");
    }
    // The next daemon opens the windows again.
    fleet.kill_daemon();
    fleet.show(&sessions[0]);
    tmux.until_windows(&["api-1:0 api-1", "api-2:0 api-2"]);
    tmux.until_shows("api-2", "again");
    let viewers = || tmux.run(&["list-panes", "-a", "-F", "#{pane_pid}"]);
    let before = viewers();
    // The one after that leaves them as they are.
    fleet.kill_daemon();
    fleet.json(&["send", &sessions[1], "say later", "--wait"]);
    tmux.until_shows("api-2", "later");
    assert_eq!(viewers(), before);
    let now = sessions.clone().map(|session| pid(&fleet.show(&session)));
    assert_eq!(now, agents);
}

#[test]
fn a_window_goes_with_its_run_and_comes_back_with_the_next() {
    let fleet = Fleet::new();
    let session = shown(&fleet, "say hello", &[]);
    let other = shown(&fleet, "say other", &[]);
    let tmux = Tmux::of(&fleet);
    fleet.json(&["kill", &session]);
    tmux.until_windows(&["api-2:0 api-2"]);
    assert!(fleet.show(&session)["runtime"].get("window").is_none());
    // The agent ends by itself.
    fleet.post(&other, "exit 3");
    fleet.until_status(&other, "failed");
    tmux.until_windows(&[]);
    fleet.until_no_agents();

    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    tmux.until_windows(&["api-1:0 api-1"]);
    tmux.until_shows("api-1", "resumed");
}

#[test]
fn windows_that_people_add_stay_theirs() {
    let fleet = Fleet::new();
    let session = shown(&fleet, "say hello", &[]);
    let tmux = Tmux::of(&fleet);
    tmux.run(&[
        "new-window",
        "-d",
        "-t",
        "api-1:",
        "-n",
        "mine",
        "sleep 1000",
    ]);
    fleet.json(&["kill", &session]);
    tmux.until_windows(&["api-1:1 mine"]);
    fleet.json(&["restore", &session]);
    fleet.until_status(&session, "idle");
    tmux.until_windows(&["api-1:0 api-1", "api-1:1 mine"]);
    tmux.until_shows("api-1:0", "resumed");
}

#[test]
fn a_daemon_that_stops_leaves_its_windows() {
    let fleet = Fleet::new();
    let session = shown(&fleet, "say hello", &[]);
    let tmux = Tmux::of(&fleet);
    tmux.until_shows("api-1", "hello");
    fleet.json(&["daemon", "stop"]);
    tmux.types("api-1", "say without a daemon");
    tmux.until_shows("api-1", "» say without a daemon");
    assert_eq!(tmux.windows(), ["api-1:0 api-1"]);
    // Nor does a window start one, with an environment that no user chose.
    let ran = fleet.run(&["attach", "--yield", &session]);
    assert_eq!(ran.code, 6, "{ran:?}");
    let daemons = || fleet.processes().len() - fleet.agents().len();
    assert_eq!(daemons(), 0);
    fleet.until_status(&session, "idle");
    assert_eq!(daemons(), 1);
}
