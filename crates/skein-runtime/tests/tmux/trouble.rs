//! What goes wrong around a run is told truthfully, and hurts no other.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use skein_domain::Exit;
use skein_runtime::Error;
use skein_runtime::conformance::dead;
use skein_runtime::runtime::{Grace, Input, Runtime, Taken};

use crate::home::{awkward, clear, fresh, shown, signal, until};

const READER: &str = "echo ready; while read -r line; do echo \"got $line\"; done";

#[tokio::test]
async fn l3_a_killed_server_leaves_every_run_missing_and_nothing_hangs() {
    let home = fresh();
    let tmux = home.tmux();
    let mut runs = vec![];
    for number in 1..=3 {
        // Deaf to the hang-up and to what the guard says first, so that something is left over for a while.
        let script = format!(
            "trap '' HUP TERM; echo $$ > pid-{number}; echo ready; while :; do sleep 0.2; done"
        );
        let handle = tmux.launch(home.shell(number, &script)).await.unwrap();
        let run = tmux.connect(&handle).await.unwrap();
        shown(&*run, "ready").await;
        runs.push((handle, run));
    }
    signal(tmux.server_pid().await.unwrap(), Signal::KILL);
    for (handle, run) in &runs {
        let mut sight = run.sight();
        sight.wait_for(|sight| sight.cut_off).await.unwrap();
        for again in [
            tmux.connect(handle).await,
            home.tmux().connect(handle).await,
        ] {
            assert!(matches!(again, Err(Error::Missing)), "{again:?}");
        }
        let written = run.write(1, Input::Keys(b"x".to_vec())).await;
        assert!(matches!(written, Err(Error::Missing)), "{written:?}");
    }
    for (number, (handle, _)) in (1..).zip(&runs) {
        let pid = fs::read_to_string(home.path(&format!("pid-{number}"))).unwrap();
        let pid: u32 = pid.trim().parse().unwrap();
        assert!(!dead(pid), "it ignores hang-ups");
        let grace = Grace {
            terminate: Duration::from_millis(200),
        };
        assert_eq!(tmux.end(handle, grace).await.unwrap(), Exit::Unseen);
        assert!(dead(pid), "left over");
        tmux.forget(handle).await.unwrap();
    }
    // The home is as good as new.
    let handle = tmux.launch(home.shell(9, READER)).await.unwrap();
    shown(&*tmux.connect(&handle).await.unwrap(), "ready").await;
    clear(&tmux).await;
}

#[tokio::test]
async fn l3_a_server_that_hangs_is_unobserved_and_ends_nothing() {
    let home = fresh();
    let tmux = home.tmux();
    let handle = tmux.launch(home.shell(1, READER)).await.unwrap();
    let run = tmux.connect(&handle).await.unwrap();
    shown(&*run, "ready").await;
    let server = tmux.server_pid().await.unwrap();
    let hurried = home.impatient(Duration::from_millis(500));
    let known = hurried.connect(&handle).await.unwrap();

    signal(server, Signal::STOP);
    for _ in 0..2 {
        let screen = known.screen().await;
        assert!(
            matches!(screen, Err(Error::Unobserved { .. })),
            "{screen:?}"
        );
        let late = known.write(1, Input::Keys(b"never\r".to_vec())).await;
        assert!(matches!(late, Err(Error::Unobserved { .. })), "{late:?}");
        let again = hurried.connect(&handle).await;
        assert!(matches!(again, Err(Error::Unobserved { .. })), "{again:?}");
        let stranger = home.impatient(Duration::from_millis(500));
        let new = stranger.connect(&handle).await;
        assert!(matches!(new, Err(Error::Unobserved { .. })), "{new:?}");
    }
    // What needs no answer is known all the same.
    let found = hurried.list().await.unwrap();
    assert_eq!((found.len(), found[0].exit), (1, None));
    assert!(found[0].pid.is_some());
    assert!(!run.sight().borrow().cut_off);
    signal(server, Signal::CONT);

    shown(&*run, "ready").await;
    // What was told to be unknown was not typed later, behind the teller's back.
    assert_eq!(
        run.write(1, Input::Keys(b"once\r".to_vec())).await.unwrap(),
        Taken::Now
    );
    shown(&*run, "got once").await;
    let rows = run.screen().await.unwrap().rows.join("\n");
    assert!(!rows.contains("never"), "{rows}");
    clear(&tmux).await;
}

#[tokio::test]
async fn a_killed_bridge_is_built_anew_and_the_run_goes_on() {
    let home = fresh();
    let tmux = home.tmux();
    let handle = tmux.launch(home.shell(1, READER)).await.unwrap();
    let run = tmux.connect(&handle).await.unwrap();
    shown(&*run, "ready").await;
    let bridge = home.bridge();
    signal(bridge, Signal::KILL);
    until("the end of the bridge", || dead(bridge)).await;
    let mut taken = run.write(1, Input::Keys(b"hello\r".to_vec())).await;
    for _ in 0..100 {
        if taken.is_ok() {
            break;
        }
        taken = run.write(1, Input::Keys(b"hello\r".to_vec())).await;
    }
    taken.unwrap();
    shown(&*run, "got hello").await;
    clear(&tmux).await;
}

#[tokio::test]
async fn a_keeper_that_is_stopped_does_not_keep_its_run() {
    let home = fresh();
    let tmux = home.impatient(Duration::from_secs(2));
    let launch = home.shell(1, "echo $$ > pid; exec sleep 600");
    let handle = home.tmux().launch(launch).await.unwrap();
    until("the agent", || home.path("pid").exists()).await;
    let agent = tmux.list().await.unwrap()[0].pid.unwrap();
    let keeper = tmux.keeper_pid(&handle).unwrap();
    // tmux wakes it; should it not, it is killed.
    signal(keeper, Signal::STOP);
    let grace = Grace {
        terminate: Duration::from_millis(100),
    };
    tmux.end(&handle, grace).await.unwrap();
    assert!(dead(agent));
    until("the keeper's end", || dead(keeper)).await;
    clear(&tmux).await;
}

#[tokio::test]
async fn the_users_own_tmux_is_neither_seen_nor_touched() {
    let home = fresh();
    let own = home.path("own-socket");
    let user = |words: &[&str]| {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&own).args(["-f", "/dev/null"]);
        let output = command.args(words).env_remove("TMUX").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    user(&["new-session", "-d", "-s", "default,api-1,1", "sleep 600"]);
    let facts = [
        "list-sessions",
        "-F",
        "#{session_id} #{session_name} #{session_windows}",
    ];
    let before = user(&facts);
    assert!(before.contains("api-1"), "{before}");

    let tmux = home.tmux();
    assert_eq!(tmux.list().await.unwrap(), vec![]);
    let handle = tmux.launch(home.shell(1, READER)).await.unwrap();
    shown(&*tmux.connect(&handle).await.unwrap(), "ready").await;
    clear(&tmux).await;
    drop(tmux);
    assert_eq!(user(&facts), before);
    assert_eq!(user(&["show-options", "-gv", "status"]).trim(), "on");
    user(&["kill-server"]);
}

#[tokio::test]
async fn a_home_with_an_awkward_path_works() {
    let home = awkward();
    let tmux = home.tmux();
    let handle = tmux.launch(home.shell(1, READER)).await.unwrap();
    let run = tmux.connect(&handle).await.unwrap();
    shown(&*run, "ready").await;
    run.write(1, Input::Paste("hello\n".into())).await.unwrap();
    shown(&*run, "got hello").await;
    drop(run);
    clear(&tmux).await;
}

#[tokio::test]
async fn twenty_launches_at_once_are_twenty_runs_and_two_of_one_are_one() {
    let home = Arc::new(fresh());
    let tmux = Arc::new(home.tmux());
    let mut launches = tokio::task::JoinSet::new();
    for number in 1..=20 {
        for tmux in [Arc::clone(&tmux), Arc::new(home.tmux())] {
            let script = format!("echo started >> starts-{number}; {READER}");
            let launch = home.shell(number, &script);
            launches.spawn(async move { tmux.launch(launch).await });
        }
    }
    while let Some(launched) = launches.join_next().await {
        launched.unwrap().unwrap();
    }
    assert_eq!(tmux.list().await.unwrap().len(), 20);
    for found in tmux.list().await.unwrap() {
        let run = tmux.connect(&found.handle).await.unwrap();
        shown(&*run, "ready").await;
        let starts = fs::read_to_string(home.path(&format!("starts-{}", found.run))).unwrap();
        assert_eq!(starts, "started\n");
    }
    clear(&*tmux).await;
}

#[tokio::test]
async fn l14_what_is_started_is_not_left_in_the_home() {
    let home = fresh();
    let tmux = home.tmux();
    let mut launch = home.shell(1, READER);
    launch.env.insert("TOKEN".into(), "hunter2-secret".into());
    let handle = tmux.launch(launch).await.unwrap();
    shown(&*tmux.connect(&handle).await.unwrap(), "ready").await;
    let found = Command::new("grep")
        .args(["-rl", "hunter2-secret"])
        .arg(home.path("tmux"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
    clear(&tmux).await;
}
