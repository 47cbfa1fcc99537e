//! The holder on its own: bad clients do it no harm, and it is small.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use crate::stage::{PATIENCE, Stage, file, frame, shown, until};
use skein_domain::Exit;
use skein_runtime::{Grace, InputResult, Runtime as _, TerminalInput};

#[test]
fn l13_malformed_frames_do_no_harm() {
    Stage::with(async |stage| {
        let (handle, run) = stage.start("echo here; exec cat").await;
        let socket = stage.socket(&handle);
        let hello = frame(r#"{"ask":"hello","version":1}"#, b"");
        let garbage: Vec<Vec<u8>> = vec![
            vec![0xff; 64],
            vec![0; 64],
            frame("", b""),
            frame("not json", b"x"),
            frame(r#"{"ask":"fly"}"#, b""),
            frame(r#"{"ask":"write","request":1}"#, b""),
            frame(r#"{"ask":"hello","version":99}"#, b""),
            frame(r#"{"ask":"take"}"#, b""),
            frame(r#"{"ask":"keys"}"#, b"typed by nobody\r"),
            frame(r#"{"ask":"resize","request":1,"rows":0,"cols":65535}"#, b""),
            frame(r#"{"ask":"resize","request":1,"rows":24,"cols":80}"#, b""),
            frame(
                r#"{"ask":"view","version":1,"name":"\u001b]0;x\u0007","take":true,"read_only":false,"rows":0,"cols":0}"#,
                b"",
            ),
            hello[..7].to_vec(),
        ];
        for bytes in garbage {
            let mut client = UnixStream::connect(&socket).unwrap();
            client.write_all(&bytes).unwrap();
            drop(client);
        }
        shown(&*run, "here").await;
        assert_eq!(
            run.write(1, TerminalInput::Keys(b"still\r".to_vec()))
                .await
                .unwrap(),
            InputResult::Now
        );
        shown(&*run, "still").await;
        let screen = run.screen().await.unwrap();
        assert!(!screen.rows.join("").contains("nobody"));
    });
}

#[test]
fn a_stuck_viewer_delays_no_other_client() {
    Stage::with(async |stage| {
        let script = "yes 'a long line of output that fills pictures quickly' & \
                      read x; kill $!; wait; printf '\\033[2J\\033[Hheard %s\\n' $x; exec cat";
        let (handle, run) = stage.start(script).await;
        let mut stuck = vec![];
        for _ in 0..3 {
            let mut viewer = UnixStream::connect(stage.socket(&handle)).unwrap();
            let view = r#"{"ask":"view","version":1,"name":"x","take":false,"read_only":true,"rows":200,"cols":200}"#;
            viewer.write_all(&frame(view, b"")).unwrap();
            stuck.push(viewer);
        }
        let mut sight = run.sight();
        let seen = sight.wait_for(|s| s.bytes > 2_000_000);
        tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap();
        run.write(1, TerminalInput::Keys(b"stop\r".to_vec()))
            .await
            .unwrap();
        shown(&*run, "heard stop").await;
        // They were not sent away, and what waited for them was bounded.
        let mut viewer = stuck.pop().unwrap();
        viewer.set_nonblocking(true).unwrap();
        let mut bytes = vec![];
        let _ = viewer.read_to_end(&mut bytes);
        assert!(!bytes.is_empty());
    });
}

#[test]
fn l6_a_paste_is_finished_though_its_client_vanished() {
    Stage::with(async |stage| {
        let text = "0123456789abcdef".repeat(1 << 14);
        let script = format!(
            "stty raw -echo; echo ready; while ! [ -e go ]; do sleep 0.05; done; \
             head -c {} > got; echo > done; exec cat",
            text.len()
        );
        let (handle, run) = stage.start(&script).await;
        shown(&*run, "ready").await;
        // The agent does not read yet, so the terminal cannot take all of it. The question after it is answered once
        // the holder has it, and then this client is gone.
        let mut client = UnixStream::connect(stage.socket(&handle)).unwrap();
        let paste = r#"{"ask":"write","request":1,"number":7,"paste":true}"#;
        client.write_all(&frame(paste, text.as_bytes())).unwrap();
        let question = r#"{"ask":"screen","request":2}"#;
        client.write_all(&frame(question, b"")).unwrap();
        client.read_exact(&mut [0; 8]).unwrap();
        drop(client);
        drop(run);

        let run = stage.runtime.connect(&handle).await.unwrap();
        assert_eq!(run.sight().borrow().input, 0, "not taken yet");
        let again = run.write(7, TerminalInput::Paste(text.clone()));
        let go = async {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            fs::write(stage.path("go"), "").unwrap();
        };
        let (again, ()) = tokio::join!(again, go);
        assert_eq!(again.unwrap(), InputResult::Before);
        file(&stage.path("done")).await;
        assert!(fs::read_to_string(stage.path("got")).unwrap() == text);
    });
}

#[test]
fn a_program_that_asks_its_terminal_is_answered() {
    Stage::with(async |stage| {
        let script = "stty raw -echo; printf 'ab\\033[6n'; head -c 6 | od -An -c > cursor; \
                      printf '\\033[c'; head -c 9 | od -An -c > device; exec cat";
        stage.start(script).await;
        let squeeze = |text: String| text.split_whitespace().collect::<String>();
        assert_eq!(squeeze(file(&stage.path("cursor")).await), "033[1;3R");
        assert_eq!(squeeze(file(&stage.path("device")).await), "033[?62;22c");
    });
}

#[test]
fn l15_the_socket_is_the_owners_alone() {
    Stage::with(async |stage| {
        let (handle, _run) = stage.start("exec cat").await;
        let socket = stage.socket(&handle);
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&socket), 0o600);
        assert_eq!(mode(socket.parent().unwrap()), 0o700);
    });
}

#[test]
fn the_last_screen_of_a_run_is_kept() {
    Stage::with(async |stage| {
        let (handle, run) = stage.start("echo farewell; exit 0").await;
        let mut sight = run.sight();
        let over = sight.wait_for(|s| s.exit.is_some());
        tokio::time::timeout(PATIENCE, over).await.unwrap().unwrap();
        let run = stage.runtime.connect(&handle).await.unwrap();
        assert_eq!(run.screen().await.unwrap().rows[0], "farewell");
        let late = run.write(1, TerminalInput::Keys(b"x".to_vec())).await;
        assert!(
            matches!(late, Err(skein_runtime::Error::Over { .. })),
            "{late:?}"
        );
        until("its holder's end", || !stage.socket(&handle).exists()).await;
    });
}

#[test]
fn l12_a_silent_holder_does_nothing() {
    Stage::with(async |stage| {
        let (handle, run) = stage.start("echo here; exec cat").await;
        shown(&*run, "here").await;
        let record = stage.socket(&handle).with_file_name("run.json");
        let record: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap();
        let holder = record["holder"].as_i64().unwrap();
        let switches = || {
            let status = fs::read_to_string(format!("/proc/{holder}/status")).unwrap();
            let line = status
                .lines()
                .find(|l| l.starts_with("voluntary_ctxt"))
                .unwrap();
            line.split_whitespace()
                .nth(1)
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        // What was printed is still told; after that it sleeps for good.
        for _ in 0..20 {
            let before = switches();
            // Longer than the period of any timer worth having.
            tokio::time::sleep(std::time::Duration::from_secs(3)).await;
            if switches() == before {
                return;
            }
        }
        panic!("it wakes up again and again");
    });
}

#[test]
fn of_many_who_launch_a_run_one_starts_it() {
    Stage::with(async |stage| {
        let launch = || {
            stage
                .runtime
                .launch(stage.launch("echo $$ >> starts; exec cat"))
        };
        let (a, b, c, d) = tokio::join!(launch(), launch(), launch(), launch());
        let handle = a.unwrap();
        for other in [b, c, d] {
            assert_eq!(other.unwrap(), handle);
        }
        let pid = file(&stage.path("starts")).await;
        let run = stage.runtime.connect(&handle).await.unwrap();
        assert_eq!(run.sight().borrow().pid.map(|p| p.to_string()), Some(pid));
    });
}

#[test]
fn a_run_whose_holder_died_is_not_started_again() {
    Stage::with(async |stage| {
        // Deaf to what its terminal and the guard say at first, so that something is left over for a while.
        let script = "trap '' HUP TERM; echo started >> starts; while :; do sleep 0.2; done";
        let (handle, run) = stage.start(script).await;
        file(&stage.path("starts")).await;
        let record = stage.socket(&handle).with_file_name("run.json");
        let record: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap();
        let holder = i32::try_from(record["holder"].as_i64().unwrap()).unwrap();
        let holder = rustix::process::Pid::from_raw(holder).unwrap();
        rustix::process::kill_process(holder, rustix::process::Signal::KILL).unwrap();
        let mut sight = run.sight();
        let cut = sight.wait_for(|s| s.cut_off);
        tokio::time::timeout(PATIENCE, cut).await.unwrap().unwrap();

        // The run was; what became of it is for `connect` to say.
        let again = stage.runtime.launch(stage.launch(script)).await.unwrap();
        assert_eq!(again, handle);
        let connect = stage.runtime.connect(&handle).await;
        assert!(matches!(connect, Err(skein_runtime::Error::Missing)));
        assert_eq!(file(&stage.path("starts")).await, "started");

        // Forgotten now, what it left could not be found any more.
        let early = stage.runtime.forget(&handle).await;
        assert!(
            matches!(early, Err(skein_runtime::Error::Refused { .. })),
            "{early:?}"
        );
        let exit = stage.runtime.end(&handle, Grace::default()).await.unwrap();
        assert_eq!(exit, Exit::Unseen);
        stage.runtime.forget(&handle).await.unwrap();
        assert_eq!(stage.runtime.list().await.unwrap(), vec![]);
    });
}
