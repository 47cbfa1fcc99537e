//! A run's life: launched, found again, over, forgotten.

use std::collections::BTreeMap;
use std::fs;

use skein_domain::{Exit, RunHandle};

use crate::bench::{Bench, clear, over, quick, shown, until};
use skein_runtime::error::Error;

pub async fn outlives_its_client(bench: &Bench) {
    let (handle, run) = bench.start(bench.shell("echo here; read x; echo $x")).await;
    shown(&*run, "here").await;
    drop(run);

    let run = bench.runtime().connect(&handle).await.unwrap();
    shown(&*run, "here").await;
    assert_eq!(run.sight().borrow().exit, None);
}

pub async fn is_found_again_by_list_and_connect(bench: &Bench) {
    let (handle, run) = bench.start(bench.shell("echo $$ > pid; exec cat")).await;
    let pid: u32 = bench.file("pid").await.parse().unwrap();
    assert_eq!(run.sight().borrow().pid, Some(pid));

    let runtime = bench.runtime();
    let found = runtime.list().await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    let found = &found[0];
    assert_eq!(found.handle, handle);
    assert_eq!(
        (found.tenant.as_str(), found.session.as_str(), found.run),
        ("default", "api-1", 1)
    );
    assert_eq!((found.pid, found.exit), (Some(pid), None));
    let again = runtime.connect(&found.handle).await.unwrap();
    assert_eq!(again.sight().borrow().pid, Some(pid));
}

pub async fn launched_twice_is_one_run(bench: &Bench) {
    let script = "echo started >> starts; exec cat";
    let runtime = bench.runtime();
    let session = "api-1".parse().unwrap();
    let foretold = runtime.handle("default", &session, 1);
    let first = runtime.launch(bench.shell(script)).await.unwrap();
    assert_eq!(first, foretold);
    bench.file("starts").await;

    let second = bench.runtime().launch(bench.shell(script)).await.unwrap();
    assert_eq!(second, first);
    assert_eq!(runtime.list().await.unwrap().len(), 1);

    runtime.end(&first, quick()).await.unwrap();
    // Also when it is over: a run is started once.
    assert_eq!(runtime.launch(bench.shell(script)).await.unwrap(), first);
    let run = runtime.connect(&first).await.unwrap();
    assert!(run.sight().borrow().exit.is_some());
    assert_eq!(bench.file("starts").await, "started");
}

pub async fn exit_code_is_kept_until_forgotten(bench: &Bench) {
    let (handle, run) = bench.start(bench.shell("echo last words; exit 7")).await;
    assert_eq!(over(&*run).await, Exit::Code(7));
    drop(run);

    let runtime = bench.runtime();
    let run = runtime.connect(&handle).await.unwrap();
    assert_eq!(run.sight().borrow().exit, Some(Exit::Code(7)));
    assert_eq!(runtime.list().await.unwrap()[0].exit, Some(Exit::Code(7)));
    assert_eq!(runtime.end(&handle, quick()).await.unwrap(), Exit::Code(7));
    runtime.forget(&handle).await.unwrap();
    assert!(matches!(
        runtime.connect(&handle).await,
        Err(Error::Missing)
    ));
    let log = fs::read_to_string(bench.path("log")).unwrap();
    assert!(log.contains("last words"), "the log stays: {log:?}");
}

pub async fn exit_by_signal_is_told(bench: &Bench) {
    let (_, run) = bench.start(bench.shell("kill -KILL $$")).await;
    assert_eq!(over(&*run).await, Exit::Signal(9));
}

pub async fn a_missing_program_is_named_and_leaves_nothing(bench: &Bench) {
    let runtime = bench.runtime();
    let launch = bench.program(&["no-such-agent", "x"]);
    let error = runtime.launch(launch).await.unwrap_err();
    assert!(
        matches!(&error, Error::CannotStart { program, .. } if program == "no-such-agent"),
        "{error:?}"
    );
    assert_eq!(runtime.list().await.unwrap(), vec![]);
    // The same run may be tried again once the program is there.
    runtime.launch(bench.shell("exec cat")).await.unwrap();
}

pub async fn a_missing_folder_is_an_error_and_leaves_nothing(bench: &Bench) {
    let runtime = bench.runtime();
    let mut launch = bench.shell("exec cat");
    launch.cwd = bench.path("no-such-folder");
    let error = runtime.launch(launch).await.unwrap_err();
    assert!(matches!(error, Error::CannotStart { .. }), "{error:?}");
    assert!(error.to_string().contains("no-such-folder"), "{error}");
    assert_eq!(runtime.list().await.unwrap(), vec![]);
}

pub async fn forget_is_repeatable_and_refuses_the_living(bench: &Bench) {
    let (handle, run) = bench.start(bench.shell("echo on; exec cat")).await;
    let runtime = bench.runtime();
    let refused = runtime.forget(&handle).await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    shown(&*run, "on").await;

    runtime.end(&handle, quick()).await.unwrap();
    runtime.forget(&handle).await.unwrap();
    runtime.forget(&handle).await.unwrap();
    assert_eq!(runtime.list().await.unwrap(), vec![]);
}

pub async fn two_homes_do_not_see_each_other(bench: &Bench) {
    let other = bench.home.another();
    let (handle, run) = bench.start(bench.shell("echo one; exec cat")).await;
    shown(&*run, "one").await;

    let there = other.runtime();
    assert_eq!(there.list().await.unwrap(), vec![]);
    let missing = there.connect(&handle).await;
    assert!(matches!(missing, Err(Error::Missing)), "{missing:?}");
    // The same run number there is another run, and its end is not ours.
    let mut launch = bench.shell("echo two; exec cat");
    launch.log = bench.path("other-log");
    let theirs = there.launch(launch).await.unwrap();
    there.end(&theirs, quick()).await.unwrap();
    clear(&*there).await;
    assert_eq!(run.sight().borrow().exit, None);
    shown(&*run, "one").await;
}

pub async fn environment_and_arguments_are_exact(bench: &Bench) {
    let mut launch = bench
        .shell("cp /proc/self/environ environ; cat /proc/$$/cmdline > argv; echo > done; exec cat");
    launch
        .argv
        .extend(["$HOME `id` \"'; x".into(), "-n".into(), String::new()]);
    let awkward = "a'b\"c $PATH\n\tline two; `id` #{x} %d";
    launch.env.insert("AWKWARD".into(), awkward.into());
    let (argv, asked) = (launch.argv.clone(), launch.env.clone());
    bench.start(launch).await;
    until("its report", || bench.path("done").exists()).await;

    let given = fs::read(bench.path("argv")).unwrap();
    assert_eq!(String::from_utf8(given).unwrap(), argv.join("\0") + "\0");
    let environ = String::from_utf8(fs::read(bench.path("environ")).unwrap()).unwrap();
    let mut env: BTreeMap<String, String> = environ
        .split_terminator('\0')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert!(env.remove("TERM").is_some());
    // What runtimes and the shell in between may add.
    for extra in ["COLORTERM", "SKEIN_RUN_MARK", "PWD", "OLDPWD", "SHLVL", "_"] {
        env.remove(extra);
    }
    assert_eq!(env, asked);
}

pub async fn standard_input_can_be_a_file(bench: &Bench) {
    fs::write(bench.path("task"), "do it\nnow\n").unwrap();
    let mut launch = bench.shell("cat > got; test -t 1 && echo terminal; echo eof; exec sleep 600");
    launch.stdin = Some(bench.path("task"));
    let (_, run) = bench.start(launch).await;
    shown(&*run, "eof").await;
    shown(&*run, "terminal").await;
    assert_eq!(bench.file("got").await, "do it\nnow");
}

pub async fn an_unknown_run_is_missing(bench: &Bench) {
    let runtime = bench.runtime();
    let session = "api-9".parse().unwrap();
    let handle = runtime.handle("default", &session, 3);
    let connect = runtime.connect(&handle).await;
    assert!(matches!(connect, Err(Error::Missing)), "{connect:?}");
    let end = runtime.end(&handle, quick()).await;
    assert!(matches!(end, Err(Error::Missing)), "{end:?}");
    runtime.forget(&handle).await.unwrap();
    // Nor does a handle lead out of the home.
    for odd in ["x", "pty:../../x/1", "pty:a/b/../1"] {
        let handle: RunHandle = odd.parse().unwrap();
        assert!(runtime.connect(&handle).await.is_err(), "{odd}");
        assert!(runtime.end(&handle, quick()).await.is_err(), "{odd}");
    }
}
