//! What goes in arrives once and whole; what comes out is seen.

use std::fs;
use std::time::Duration;

use skein_domain::Exit;

use crate::bench::{Bench, PATIENCE, keys, over, shown, until};
use skein_runtime::runtime::{InputResult, Size, TerminalInput};

/// Records what it is typed, byte by byte, after saying `ready`. `before` may switch terminal modes on.
fn recorder(before: &str, bytes: usize) -> String {
    format!("stty raw -echo; {before} printf ready; head -c {bytes} > got; echo > done; exec cat")
}

async fn recorded(bench: &Bench) -> String {
    until("the recording", || bench.path("done").exists()).await;
    // A terminal's Enter is a carriage return; some runtimes paste line feeds. Both are line ends.
    let got = String::from_utf8(fs::read(bench.path("got")).unwrap()).unwrap();
    got.replace('\r', "\n")
}

pub async fn a_numbered_input_is_taken_once(bench: &Bench) {
    let (_, run) = bench.start(bench.shell(&recorder("", 9))).await;
    shown(&*run, "ready").await;
    assert_eq!(run.write(1, keys("one")).await.unwrap(), InputResult::Now);
    assert_eq!(
        run.write(1, keys("one")).await.unwrap(),
        InputResult::Before
    );
    assert_eq!(run.write(5, keys("two")).await.unwrap(), InputResult::Now);
    assert_eq!(
        run.write(4, keys("old")).await.unwrap(),
        InputResult::Before
    );
    assert_eq!(run.write(6, keys("end")).await.unwrap(), InputResult::Now);
    assert_eq!(recorded(bench).await, "onetwoend");
    let mut sight = run.sight();
    let seen = sight.wait_for(|s| s.input == 6);
    tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap();
}

pub async fn a_number_is_taken_once_across_clients(bench: &Bench) {
    let (handle, run) = bench.start(bench.shell(&recorder("", 9))).await;
    shown(&*run, "ready").await;
    assert_eq!(run.write(3, keys("abc")).await.unwrap(), InputResult::Now);
    drop(run);
    // A client that crashed between writing and recording writes again.
    let run = bench.runtime().connect(&handle).await.unwrap();
    assert_eq!(run.sight().borrow().input, 3);
    assert_eq!(
        run.write(3, keys("abc")).await.unwrap(),
        InputResult::Before
    );
    assert_eq!(
        run.write(4, keys("defghi")).await.unwrap(),
        InputResult::Now
    );
    assert_eq!(recorded(bench).await, "abcdefghi");
}

pub async fn paste_is_bracketed_only_when_asked_for(bench: &Bench) {
    let text = "first line\nsecond line";
    let paste = || TerminalInput::Paste(text.into());
    let (handle, run) = bench.start(bench.shell(&recorder("", text.len()))).await;
    let screen = shown(&*run, "ready").await;
    assert!(!screen.bracketed_paste);
    assert_eq!(run.write(1, paste()).await.unwrap(), InputResult::Now);
    assert_eq!(recorded(bench).await, text);
    let runtime = bench.runtime();
    runtime.end(&handle, crate::bench::quick()).await.unwrap();

    fs::remove_file(bench.path("done")).unwrap();
    let bracketed = format!("\x1b[200~{text}\x1b[201~");
    let script = recorder("printf '\\033[?2004h';", bracketed.len());
    let mut launch = bench.shell(&script);
    launch.run = 2;
    let (_, run) = bench.start(launch).await;
    let screen = shown(&*run, "ready").await;
    assert!(screen.bracketed_paste);
    assert_eq!(run.write(1, paste()).await.unwrap(), InputResult::Now);
    assert_eq!(recorded(bench).await, bracketed);
}

pub async fn paste_of_a_megabyte_arrives_whole(bench: &Bench) {
    let line = "0123456789 the quick brown fox jumps over the lazy dog, größer\n";
    let text: String = line.repeat((1 << 20) / line.len() + 1);
    let length = text.len() + "\x1b[200~\x1b[201~".len();
    let script = recorder("printf '\\033[?2004h';", length);
    let (_, run) = bench.start(bench.shell(&script)).await;
    shown(&*run, "ready").await;
    let taken = run
        .write(1, TerminalInput::Paste(text.clone()))
        .await
        .unwrap();
    assert_eq!(taken, InputResult::Now);
    let got = recorded(bench).await;
    assert!(got == format!("\x1b[200~{text}\x1b[201~"), "it differs");
}

pub async fn paste_cannot_close_its_own_bracket(bench: &Bench) {
    let hostile = "a\x1b[201~b\x1b[31mc\u{9b}201~d\x03e";
    // What it looks like without the characters that act.
    let plain = "\x1b[200~a[201~b[31mc201~de\x1b[201~";
    let script = recorder("printf '\\033[?2004h';", plain.len());
    let (_, run) = bench.start(bench.shell(&script)).await;
    shown(&*run, "ready").await;
    run.write(1, TerminalInput::Paste(hostile.into()))
        .await
        .unwrap();
    assert_eq!(recorded(bench).await, plain);
}

pub async fn text_is_never_read_as_an_option(bench: &Bench) {
    let text = "-l -t x ; kill-server $(id) `id` #{pane_id} %1 Enter C-c \\; \"'";
    let (_, run) = bench
        .start(bench.shell(&recorder("", text.len() + 2)))
        .await;
    shown(&*run, "ready").await;
    run.write(1, TerminalInput::Paste(text.into()))
        .await
        .unwrap();
    run.write(2, keys(";\r")).await.unwrap();
    assert_eq!(recorded(bench).await, format!("{text};\n"));
}

pub async fn the_screen_shows_what_was_printed(bench: &Bench) {
    let script = "printf 'one\\n\\033[31mred\\033[0m größe 漢字\\n'; \
                  printf '\\033[10;5Hplaced'; printf '\\033[12;1H'; exec cat";
    let (_, run) = bench.start(bench.shell(script)).await;
    let screen = shown(&*run, "placed").await;
    assert_eq!(screen.rows.len(), 24);
    assert_eq!(screen.rows[0], "one");
    assert_eq!(screen.rows[1], "red größe 漢字");
    assert_eq!(screen.rows[9], "    placed");
    assert!(screen.bytes > 0);
    let mut cursor = screen.cursor;
    for _ in 0..100 {
        if cursor == (11, 0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        cursor = run.screen().await.unwrap().cursor;
    }
    assert_eq!(cursor, (11, 0));
}

pub async fn resize_is_seen_by_the_program(bench: &Bench) {
    let script = "echo start $(stty size); \
                  while [ \"$(stty size)\" != '30 100' ]; do sleep 0.05; done; \
                  echo now $(stty size); exec cat";
    let (_, run) = bench.start(bench.shell(script)).await;
    shown(&*run, "start 24 80").await;
    let size = Size {
        rows: 30,
        cols: 100,
    };
    run.resize(size).await.unwrap();
    let screen = shown(&*run, "now 30 100").await;
    assert_eq!(screen.rows.len(), 30);
}

pub async fn big_output_does_not_stall_input(bench: &Bench) {
    let script = "yes 'all work and no play makes a dull log' & read x; kill $!; wait; \
                  printf '\\033[2J\\033[Hheard %s\\n' \"$x\"; exec cat";
    let (_, run) = bench.start(bench.shell(script)).await;
    let mut sight = run.sight();
    let seen = sight.wait_for(|s| s.bytes > 1_000_000);
    tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap();
    let taken = tokio::time::timeout(PATIENCE, run.write(1, keys("stop\r"))).await;
    assert_eq!(taken.unwrap().unwrap(), InputResult::Now);
    shown(&*run, "heard stop").await;
}

pub async fn sight_follows_output_and_exit(bench: &Bench) {
    let (_, run) = bench
        .start(bench.shell("read x; echo $x; read y; exit 3"))
        .await;
    let mut sight = run.sight();
    assert_eq!(sight.borrow().exit, None);
    run.write(1, keys("hello\r")).await.unwrap();
    let seen = sight.wait_for(|s| s.bytes >= 5 && s.output_at.is_some() && s.input == 1);
    tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap();
    run.write(2, keys("\r")).await.unwrap();
    assert_eq!(over(&*run).await, Exit::Code(3));
}
