//! What a program prints and inherits cannot hurt anybody.

use std::fs;

use crate::bench::{Bench, PATIENCE, shown, until};

pub async fn escapes_reach_neither_screen_nor_log(bench: &Bench) {
    let attacks = [
        "\\033]0;EVILtitle\\007",
        "\\033]2;EVILtitle\\033\\\\",
        "\\033]52;c;RVZJTA==\\007",
        "\\033]8;;http://EVIL/\\033\\\\link\\033]8;;\\033\\\\",
        "\\033P+q544e\\033\\\\",
        "\\033PEVILdcs\\033\\\\",
        "\\033_EVILapc\\033\\\\",
        "\\033^EVILpm\\033\\\\",
        "\\033XEVILsos\\033\\\\",
        "\\033[6n\\033[5n\\033[c\\033[>c\\033[?6n",
        "\\033[21t\\033[20t\\033[8;10;10t",
        "\\033]10;?\\007\\033]11;?\\007\\033]4;1;?\\007",
        "\\302\\235EVILc1\\302\\234",
        "\\033]0;unfinished",
    ];
    let mut script = String::from("printf 'begin\\n';");
    for attack in attacks {
        script.push_str(&format!("printf '{attack}';"));
    }
    script.push_str("printf '\\030\\nend \\033[32mgreen\\033[0m\\n'; exec cat");
    let (_, run) = bench.start(bench.shell(&script)).await;
    let screen = shown(&*run, "end green").await;
    let rows = screen.rows.join("\n");
    assert!(
        !rows.chars().any(|c| c.is_control() && c != '\n'),
        "{rows:?}"
    );
    assert_eq!(screen.rows.len(), 24, "the program resizes nothing");
    // The answers to its questions are not shown either.
    for trace in [
        "EVILtitle",
        "RVZJTA",
        "EVILdcs",
        "EVILapc",
        "EVILpm",
        ";1R",
        "[0n",
        "rgb:",
    ] {
        assert!(!rows.contains(trace), "{trace} in {rows}");
    }

    let mut log = String::new();
    until("the log", || {
        log = fs::read_to_string(bench.path("log")).unwrap_or_default();
        log.contains("green")
    })
    .await;
    for trace in [
        "EVILtitle",
        "RVZJTA",
        "EVILdcs",
        "EVILapc",
        "EVILpm",
        ";1R",
        "[0n",
        "rgb:",
    ] {
        assert!(!log.contains(trace), "{trace} in {log:?}");
    }
    let mut rest = log.as_str();
    while let Some(at) = rest.find('\x1b') {
        rest = &rest[at + 1..];
        let end = rest.find(|c: char| !matches!(c, '[' | '0'..='9' | ';' | ':'));
        let end = end.expect("a sequence ends");
        // Colours, and the size of the terminal.
        assert!(
            rest.starts_with('[') && (rest[end..].starts_with('m') || rest.starts_with("[24;80~")),
            "only colours: {rest:?}"
        );
    }
    let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\x1b');
    assert!(!log.contains(acts), "{log:?}");
}

pub async fn the_agent_gets_no_descriptor_of_ours(bench: &Bench) {
    // Held open without close-on-exec, as a careless library would.
    let leaky = fs::File::open("/dev/null").unwrap();
    let leaky = rustix::io::dup(&leaky).unwrap();
    let script = "ls /proc/$$/fd > fds; echo > done; exec cat";
    bench.start(bench.shell(script)).await;
    drop(leaky);
    until("its report", || bench.path("done").exists()).await;
    let open = fs::read_to_string(bench.path("fds")).unwrap();
    // 10 and above are the shell's own copies.
    let low: Vec<&str> = open.lines().filter(|fd| fd.len() == 1).collect();
    assert_eq!(low, ["0", "1", "2"], "{open}");
}

pub async fn the_log_is_bounded(bench: &Bench) {
    let script = "yes 'a line of output that goes on and on and on and on and on' | head -c 12000000; echo the end; exec cat";
    let (_, run) = bench.start(bench.shell(script)).await;
    let mut sight = run.sight();
    let seen = sight.wait_for(|s| s.bytes > 12_000_000);
    tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap();
    until("the log's end", || {
        let log = fs::read(bench.path("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).contains("the end")
    })
    .await;
    let total: u64 = fs::read_dir(bench.folder.path())
        .unwrap()
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .map(|meta| meta.len())
        .sum();
    assert!(total < 6 << 20, "{total} bytes are kept");
}
