//! No process of a run survives it.

use skein_domain::Exit;

use crate::bench::{Bench, dead, gone, over, quick, read_number, shown, until};
use skein_runtime::error::Error;

/// A child in a session of its own, and a daemon that forked twice to lose its parents.
const FAMILY: &str = "(exec setsid sh -c 'echo $$ > own-session.tmp; mv own-session.tmp own-session; exec sleep 600') & \
     (setsid sh -c 'sh -c \"echo \\$\\$ > daemon.tmp; mv daemon.tmp daemon; exec sleep 600\" </dev/null >/dev/null 2>&1 & exit 0'); \
     sleep 600 & echo $! > child.tmp; mv child.tmp child;";

async fn family(bench: &Bench) -> [u32; 3] {
    let names = ["own-session", "daemon", "child"];
    until("the family", || {
        names.iter().all(|name| bench.path(name).exists())
    })
    .await;
    names.map(|name| read_number(&bench.path(name)))
}

pub async fn end_takes_the_whole_tree(bench: &Bench) {
    let (handle, run) = bench
        .start(bench.shell(&format!("{FAMILY} echo up; wait; exec cat")))
        .await;
    shown(&*run, "up").await;
    let family = family(bench).await;
    let agent = run.sight().borrow().pid.unwrap();

    let exit = bench.runtime().end(&handle, quick()).await.unwrap();
    assert!(
        matches!(exit, Exit::Signal(_) | Exit::Code(_)),
        "somebody saw how it ended: {exit:?}"
    );
    for pid in family.into_iter().chain([agent]) {
        assert!(dead(pid), "process {pid} survived");
    }
    assert_eq!(bench.runtime().end(&handle, quick()).await.unwrap(), exit);
    assert_eq!(over(&*run).await, exit);
}

pub async fn end_kills_what_ignores_the_polite_signal(bench: &Bench) {
    let script = "trap '' TERM HUP INT; echo stubborn; while :; do sleep 0.2; done";
    let (handle, run) = bench.start(bench.shell(script)).await;
    shown(&*run, "stubborn").await;
    let agent = run.sight().borrow().pid.unwrap();
    let exit = bench.runtime().end(&handle, quick()).await.unwrap();
    assert_eq!(exit, Exit::Signal(9));
    assert!(dead(agent));
}

pub async fn what_the_agent_left_running_goes_with_it(bench: &Bench) {
    let (_, run) = bench
        .start(bench.shell(&format!(
            "{FAMILY} while ! [ -e daemon ] || ! [ -e own-session ]; do sleep 0.05; done; exit 4"
        )))
        .await;
    let family = family(bench).await;
    assert_eq!(over(&*run).await, Exit::Code(4));
    for pid in family {
        gone(pid).await;
    }
}

pub async fn l3_a_killed_holder_is_told_truthfully_and_its_leftovers_end(bench: &Bench) {
    let script = format!("trap '' HUP TERM; {FAMILY} echo up; while :; do sleep 0.2; done");
    let (handle, run) = bench.start(bench.shell(&script)).await;
    shown(&*run, "up").await;
    let family = family(bench).await;
    let agent = run.sight().borrow().pid.unwrap();
    let holder = bench.home.holder(&handle);
    let mut sight = run.sight();

    let holder = rustix::process::Pid::from_raw(i32::try_from(holder).unwrap()).unwrap();
    rustix::process::kill_process(holder, rustix::process::Signal::KILL).unwrap();
    let cut = sight.wait_for(|s| s.cut_off || s.exit.is_some());
    tokio::time::timeout(crate::bench::PATIENCE, cut)
        .await
        .unwrap()
        .unwrap();
    // It may say that it cannot look, for a while; it must not say that the run goes on.
    let runtime = bench.runtime();
    let connect = runtime.connect(&handle).await;
    match connect {
        Err(Error::Missing | Error::Unobserved { .. }) => {}
        Ok(run) => assert!(run.sight().borrow().exit.is_some()),
        Err(other) => panic!("{other:?}"),
    }

    runtime.end(&handle, quick()).await.unwrap();
    for pid in family.into_iter().chain([agent]) {
        assert!(dead(pid), "process {pid} survived");
    }
    runtime.forget(&handle).await.unwrap();
    assert_eq!(runtime.list().await.unwrap(), vec![]);
}
