//! L15: who may do what, with every kind of caller against every route, and with hostile agents.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::inotify;
use serde_json::{Value, json};

use crate::harness::{Call, Response};
use crate::harness::{Fleet, eventually, text};

/// A fleet whose daemon listens on loopback and finds programs that record that they were started.
struct Guarded {
    fleet: Fleet,
    address: String,
    /// What programs on the daemon's PATH write to when they are started.
    started: PathBuf,
    /// A folder that only hostile arguments name.
    bait: PathBuf,
}

const PROGRAMS: [&str; 6] = ["git", "claude", "codex", "gemini", "opencode", "aider"];

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

impl Guarded {
    fn new() -> Self {
        Self::with_config("")
    }

    fn with_config(config: &str) -> Self {
        let fleet = Fleet::without_project();
        let user = fleet.home.user();
        let (started, bait, bin) = (
            user.join("started"),
            user.join("bait"),
            user.join("watched-bin"),
        );
        fs::write(&started, "").unwrap();
        let mark = |name: &str| format!("echo {name} >> {}\n", started.display());
        for name in PROGRAMS {
            let rest = if name == "git" {
                "exec /usr/bin/git \"$@\"\n"
            } else {
                "echo 1.0.0\n"
            };
            script(&bin.join(name), &(mark(name) + rest));
            script(&bait.join(name), &mark(&format!("bait/{name}")));
        }
        let config_folder = user.join(".config/skein");
        fs::create_dir_all(&config_folder).unwrap();
        fs::write(config_folder.join("config.toml"), config).unwrap();
        let mut command =
            fleet
                .home
                .command(&["daemon", "run", "--announce", "--listen", "127.0.0.1:0"]);
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        crate::harness::Daemon::announced(command).unwrap();
        let address = text(&fleet.json(&["daemon", "status"])["listen"]);
        let repo = fleet.repo.display().to_string();
        fleet.home.json(&["project", "add", &repo, "--name", "api"]);
        Self {
            fleet,
            address,
            started,
            bait,
        }
    }

    fn token(&self, args: &[&str]) -> String {
        text(&self.fleet.json(&[&["token", "new"], args].concat())["secret"])
    }

    fn call(&self, call: &Call, bearer: Option<&str>) -> Response {
        let call = match bearer {
            Some(bearer) => call.clone().bearer(bearer),
            None => call.clone(),
        };
        call.over_tcp(&self.address)
    }

    fn started(&self) -> String {
        fs::read_to_string(&self.started).unwrap()
    }

    /// A session whose agent waits for ever, and its credential.
    fn agent(&self, project: &str) -> (String, String) {
        let args = ["spawn", "--project", project, "--agent", "scripted", "wait"];
        let session = text(&self.fleet.json(&args)["id"]);
        let credential = self.credential(&session);
        (session, credential)
    }

    /// The credential in the environment of the session's agent.
    fn credential(&self, session: &str) -> String {
        eventually(
            || {
                let pid = self.fleet.show(session)["runtime"]["pid"].as_i64()?;
                let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
                let name = b"SKEIN_CREDENTIAL=";
                let value = environ
                    .split(|b| *b == 0)
                    .find_map(|v| v.strip_prefix(name))?;
                Some(String::from_utf8(value.to_vec()).unwrap())
            },
            || format!("{session} has no credential"),
        )
    }
}

/// Tells of every file below a folder that is opened.
struct Watch(rustix::fd::OwnedFd);

impl Watch {
    fn on(folder: &Path) -> Self {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let watch = inotify::init(flags).unwrap();
        let events = inotify::WatchFlags::OPEN | inotify::WatchFlags::ACCESS;
        inotify::add_watch(&watch, folder, events).unwrap();
        Self(watch)
    }

    fn saw_nothing(&self) -> bool {
        let mut buffer = [0; 4096];
        matches!(
            rustix::io::read(&self.0, &mut buffer),
            Err(rustix::io::Errno::AGAIN)
        )
    }
}

/// The rows of the published table: method, path, role, what a run may, right, where.
fn table() -> Vec<[String; 6]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/access.md");
    let text = fs::read_to_string(path).unwrap();
    let rows: Vec<[String; 6]> = text
        .lines()
        .filter(|line| line.contains("`/api/"))
        .map(|line| {
            let cells: Vec<String> = line
                .trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().trim_matches('`').to_owned())
                .collect();
            cells.try_into().unwrap()
        })
        .collect();
    assert!(rows.len() > 60, "{rows:?}");
    rows
}

fn rank(role: &str) -> usize {
    ["read", "operate", "admin"]
        .iter()
        .position(|r| *r == role)
        .unwrap()
}

/// Every argument that could make a daemon start something or look at its disk.
fn hostile_body(path: &str, bait: &Path) -> Option<Value> {
    let bait = bait.display().to_string();
    match path {
        "/api/v1/sessions" => Some(json!({
            "project": "api", "task": "t", "agent": "custom", "command": format!("{bait}/claude"),
            "path": bait, "adopt": bait, "env": {"X": "y"},
        })),
        "/api/v1/projects" => Some(json!({"path": bait, "name": "bait"})),
        _ => None,
    }
}

/// What decides a refusal at the door, and nothing later.
fn is_refused_at_the_door(answer: &Response) -> bool {
    answer.status == 401
        || (answer.status == 403
            && matches!(
                answer.json()["error"]["details"]["rule"].as_str(),
                None | Some("role" | "run_scope")
            ))
}

#[test]
fn l15_a_refused_call_starts_nothing_opens_nothing_and_tells_nothing() {
    let guarded = Guarded::new();
    let (session, credential) = guarded.agent("api");
    let thread = text(&guarded.fleet.show(&session)["thread"]);
    let token = |args: &[&str]| Some(guarded.token(args));
    let callers: BTreeMap<&str, Option<String>> = BTreeMap::from([
        ("nobody", None),
        ("read", token(&["r", "--role", "read"])),
        (
            "read run",
            token(&["rr", "--role", "read", "--allow", "run"]),
        ),
        ("operate", token(&["o"])),
        ("operate run", token(&["or", "--allow", "run"])),
        ("operate bound", token(&["ob", "--actor", "user:bob"])),
        ("admin", token(&["a", "--role", "admin"])),
        (
            "admin run",
            token(&["ar", "--role", "admin", "--allow", "run"]),
        ),
        ("credential", Some(credential)),
    ]);
    let bait = Watch::on(&guarded.bait);
    let mut refused = 0;
    for [method, path, role, run, _, on] in table() {
        let call = |ids: [&str; 4]| {
            let [session, thread, project, other] = ids;
            let path = path
                .replace("{session}", session)
                .replace("{thread}", thread)
                .replace("{project}", project)
                .replace("{receipt}", other)
                .replace("{token}", other);
            match hostile_body(&path, &guarded.bait) {
                Some(body) if method == "POST" => Call::post(&path, &body),
                _ => Call::new(&method, &path),
            }
        };
        let there = call([&session, &thread, "api", "tok_"]);
        let missing = call(["nope-9", "thr_nope", "nope", "nope"]);
        for (name, bearer) in &callers {
            let first = name.split(' ').next().unwrap();
            let may = match first {
                "nobody" => false,
                _ if on == "Unix socket" => false,
                "credential" => run != "-",
                _ if role == "-" => false,
                holder => rank(holder) >= rank(&role),
            };
            if may {
                continue;
            }
            refused += 1;
            let before = guarded.started();
            let answer = guarded.call(&there, bearer.as_deref());
            let what = format!("{name}: {method} {path}: {answer:?}");
            assert!(is_refused_at_the_door(&answer), "{what}");
            let absent = guarded.call(&missing, bearer.as_deref());
            assert_eq!(answer.body, absent.body, "{what}");
            assert_eq!(answer.status, absent.status, "{what}");
            assert_eq!(guarded.started(), before, "{what}");
            assert!(bait.saw_nothing(), "{what}");
        }
    }
    assert!(refused > 150, "{refused}");
    // What is not refused at the door is not refused there by mistake either.
    let operator = callers["operate"].as_deref();
    for path in ["/api/v1/sessions", "/api/v1/agents", "/api/v1/threads"] {
        guarded.call(&Call::get(path), operator).ok();
    }
}

#[test]
fn l15_a_reader_starts_no_process() {
    let guarded = Guarded::new();
    let (session, _) = guarded.agent("api");
    let thread = text(&guarded.fleet.show(&session)["thread"]);
    let receipts = guarded
        .fleet
        .home
        .call(&Call::get(&format!("/api/v1/sessions/{session}/receipts")));
    let receipt = text(&receipts.ok()["data"][0]["id"]);
    let reader = guarded.token(&["r", "--role", "read"]);
    let run = guarded.token(&["rr", "--role", "read", "--allow", "run"]);
    let bait = Watch::on(&guarded.bait);
    let hostile = format!("/api/v1/agents?path={}", guarded.bait.display());
    for bearer in [&reader, &run] {
        guarded.call(&Call::get(&hostile), Some(bearer)).error(403);
    }
    let before = guarded.started();
    for [method, path, role, ..] in table() {
        if (method.as_str(), role.as_str()) != ("GET", "read") || path.ends_with("/events") {
            continue;
        }
        let path = path
            .replace("{session}", &session)
            .replace("{thread}", &thread)
            .replace("{receipt}", &receipt)
            .replace("{project}", "api");
        let path = match path.as_str() {
            "/api/v1/transcripts/search" => format!("{path}?q=x"),
            _ => path,
        };
        for bearer in [&reader, &run] {
            let answer = guarded.call(&Call::get(&path), Some(bearer));
            // No summary was written, and a terminal is told on the socket only.
            let there = answer.status == 200 || path.ends_with("/summary");
            assert!(there, "{path}: {answer:?}");
        }
        assert_eq!(guarded.started(), before, "{path}");
    }
    let show = Call::get(&format!("/api/v1/sessions/{session}"));
    let shown = guarded.call(&show, Some(&reader)).ok();
    assert_eq!(shown["workspace"]["dirty"], Value::Null);
    assert!(bait.saw_nothing());
    // The user of the machine still learns versions from the programs themselves.
    let path = guarded.bait.display().to_string();
    let mut list = guarded.fleet.command(&["--json", "agent", "ls"]);
    list.env("PATH", format!("{path}:/usr/bin:/bin"));
    assert!(list.output().unwrap().status.success());
    assert!(guarded.started().contains("bait/claude"));
}

#[test]
fn l15_a_token_starts_only_the_agents_it_may() {
    let guarded = Guarded::with_config("[daemon]\ntoken_agents = [\"scripted\"]\n");
    let plain = guarded.token(&["plain"]);
    let admin = guarded.token(&["admin", "--role", "admin"]);
    let run = guarded.token(&["run", "--allow", "run"]);
    let marker = guarded.fleet.home.user().join("marker");
    let command = format!("touch {}; sleep 600", marker.display());
    let spawn = |extra: Value, bearer: &str| {
        let mut body = json!({"project": "api", "task": "wait"});
        let fields = extra.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        guarded.call(&Call::post("/api/v1/sessions", &body), Some(bearer))
    };
    for bearer in [&plain, &admin] {
        for extra in [
            json!({"agent": "custom", "command": command}),
            json!({"command": command}),
            json!({"agent": "claude-code"}),
            json!({"agent": "scripted", "command": command}),
            json!({"agent": "scripted", "env": {"LD_PRELOAD": "/tmp/x.so"}}),
            json!({"agent": "scripted", "path": guarded.bait}),
            json!({"agent": "scripted", "adopt": guarded.bait}),
            json!({"agent": "scripted", "workspace": "dir"}),
            json!({"agent": "scripted", "permission": "full"}),
            // Set-up commands run in what is checked out.
            json!({"agent": "scripted", "base": "HEAD"}),
            json!({"agent": "scripted", "branch": "other"}),
        ] {
            let error = spawn(extra.clone(), bearer).error(403);
            assert_eq!(error["details"]["rule"], "right", "{extra}: {error}");
            assert_ne!(error["hints"], json!([]), "{extra}");
        }
        // A folder brings its own settings, and so its own programs.
        let folder = json!({"path": guarded.bait, "name": "bait"});
        let error = guarded
            .call(&Call::post("/api/v1/projects", &folder), Some(bearer))
            .error(403);
        assert_ne!(error["hints"], json!([]));
        // No right is given away that is not had.
        let more = json!({"name": "more", "allow": ["run"]});
        guarded
            .call(&Call::post("/api/v1/tokens", &more), Some(bearer))
            .error(403);
    }
    assert!(!marker.exists());
    let allowed = spawn(json!({"agent": "scripted"}), &plain).ok();
    guarded
        .fleet
        .until(&text(&allowed["id"]), |s| s["phase"] != "spawning");
    // PATH is the caller's own machine's, also for whoever may start programs.
    spawn(
        json!({"agent": "custom", "command": command, "path": guarded.bait}),
        &run,
    )
    .error(403);
    let made = spawn(json!({"agent": "custom", "command": command}), &run).ok();
    eventually(|| marker.exists().then_some(()), || made.to_string());
    // What somebody with the right started is not started again by somebody without it.
    let session = text(&made["id"]);
    guarded.fleet.json(&["kill", &session]);
    guarded.fleet.until(&session, |s| s["phase"] == "ended");
    let restore = Call::post(&format!("/api/v1/sessions/{session}/restore"), &json!({}));
    let error = guarded.call(&restore, Some(&plain)).error(403);
    assert_eq!(error["details"]["rule"], "right");
    guarded.call(&restore, Some(&run)).ok();
    // Nor with the variables, the folder or the permission that somebody else chose.
    for extra in [
        ["--env", "FOO=secret"],
        ["--workspace", "dir"],
        ["--permission", "full"],
    ] {
        let mut spawn = guarded
            .fleet
            .command(&["--json", "spawn", "--project", "api"]);
        spawn.args(["--agent", "scripted", "wait"]).args(extra);
        let made = crate::harness::Ran::from(spawn.output().unwrap()).document();
        let session = text(&made["id"]);
        guarded.fleet.json(&["kill", &session]);
        guarded.fleet.until(&session, |s| s["phase"] == "ended");
        let restore = Call::post(&format!("/api/v1/sessions/{session}/restore"), &json!({}));
        let error = guarded.call(&restore, Some(&plain)).error(403);
        assert_eq!(error["details"]["rule"], "right", "{extra:?}");
    }
    // What it spawned itself it may restore, until set-up commands would run on what a session left there.
    let own = text(&allowed["id"]);
    let restore = Call::post(&format!("/api/v1/sessions/{own}/restore"), &json!({}));
    let killed = || {
        guarded.fleet.json(&["kill", &own]);
        guarded.fleet.until(&own, |s| s["phase"] == "ended");
    };
    killed();
    guarded.call(&restore, Some(&plain)).ok();
    guarded.fleet.until(&own, |s| s["phase"] != "spawning");
    killed();
    guarded.fleet.settings("setup = [\"sh ./setup.sh\"]\n");
    let error = guarded.call(&restore, Some(&plain)).error(403);
    assert_eq!(error["details"]["rule"], "right");
}

#[test]
fn l15_a_bound_token_speaks_for_its_actor_in_every_field() {
    let guarded = Guarded::with_config("[daemon]\ntoken_agents = [\"scripted\"]\n");
    let (other, _) = guarded.agent("api");
    let bound = guarded.token(&["bob", "--actor", "user:bob"]);
    let post = |path: &str, body: Value| guarded.call(&Call::post(path, &body), Some(&bound));
    let spawn = |extra: Value| {
        let mut body = json!({"project": "api", "task": "wait", "agent": "scripted"});
        let fields = extra.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        post("/api/v1/sessions", body)
    };
    for owner in ["user:ann", "agent:scripted", "system"] {
        let error = spawn(json!({"owner": owner})).error(403);
        assert_eq!(error["details"]["rule"], "other_actor", "{owner}");
        let error = spawn(json!({"owner": owner, "agent": "none"})).error(403);
        assert_eq!(error["details"]["rule"], "other_actor", "{owner}");
    }
    let own = spawn(json!({})).ok();
    assert_eq!(own["owner"], "user:bob");
    let own = text(&own["id"]);
    let free = text(&spawn(json!({"agent": "none"})).ok()["id"]);
    for call in ["begin-turn", "end-turn", "withdraw", "end"] {
        let path = format!("/api/v1/sessions/{free}/{call}");
        let error = post(&path, json!({"as": "user:ann"})).error(403);
        assert_eq!(error["details"]["rule"], "other_actor", "{call}");
    }
    let path = format!("/api/v1/sessions/{free}/ask");
    let error = post(&path, json!({"question": "?", "as": "user:ann"})).error(403);
    assert_eq!(error["details"]["rule"], "other_actor");
    let path = format!("/api/v1/sessions/{free}/fork");
    let error = post(&path, json!({"owner": "user:ann"})).error(403);
    assert_eq!(error["details"]["rule"], "other_actor");
    // Messages: to its own sessions, and in the name of its own sessions.
    let send = |to: &str, from: Option<&str>| {
        let path = format!("/api/v1/sessions/{to}/send");
        post(&path, json!({"text": "hello", "from": from}))
    };
    let error = send(&other, None).error(403);
    assert_eq!(error["details"]["rule"], "not_owner");
    let error = send(&own, Some(&other)).error(403);
    assert_eq!(error["details"]["rule"], "not_owner");
    send(&own, Some(&own)).ok();
    let actors: Vec<Value> = guarded
        .fleet
        .home
        .events()
        .into_iter()
        .filter(|e| e["session"] == json!(free))
        .map(|e| e["actor"].clone())
        .collect();
    assert!(actors.iter().all(|a| a == "user:bob"), "{actors:?}");
}

/// What a hostile agent tried, one line a command: its exit code and what it printed.
fn attempts(guarded: &Guarded, commands: &[String]) -> Vec<(i32, String)> {
    let user = guarded.fleet.home.user();
    let (list, results) = (user.join("attempts.sh"), user.join("results"));
    let _ = fs::remove_file(&results);
    let done = user.join("done");
    let _ = fs::remove_file(&done);
    // A session delegates once it has started.
    let mut text = String::from(
        "while $SKEIN_BIN --json show $SKEIN_SESSION | grep -q '\"phase\":\"spawning\"'; do :; done\n",
    );
    for (n, command) in commands.iter().enumerate() {
        text += &format!(
            "out=$({command} 2>&1 </dev/null); code=$?; printf '%s %s\\n' $code \"$(echo \"$out\" | tr '\\n' ' ')\" >> {} # {n}\n",
            results.display()
        );
    }
    text += &format!("touch {}; exec sleep 600\n", done.display());
    script(&list, &text);
    guarded.fleet.json(&[
        "spawn",
        "--project",
        "api",
        "--agent",
        "custom",
        "--command",
        &list.display().to_string(),
        "--prompt-via",
        "argv",
        "attack",
    ]);
    eventually(
        || done.exists().then_some(()),
        || fs::read_to_string(&results).unwrap_or_default(),
    );
    let results = fs::read_to_string(&results).unwrap();
    let results: Vec<_> = results
        .lines()
        .map(|line| {
            let (code, out) = line.split_once(' ').unwrap();
            (code.parse().unwrap(), out.to_owned())
        })
        .collect();
    assert_eq!(results.len(), commands.len());
    results
}

#[test]
fn l15_an_agents_command_line_reaches_its_project_and_what_is_below_it() {
    let guarded = Guarded::new();
    let fleet = &guarded.fleet;
    fleet
        .home
        .json(&["project", "add", "--no-folder", "--name", "secret"]);
    let hidden =
        text(&fleet.json(&["spawn", "--project", "secret", "--agent", "none", "hidden"])["id"]);
    fleet.home.json_as(
        "other",
        &["project", "add", "--no-folder", "--name", "theirs"],
    );
    let (peer, _) = guarded.agent("api");
    let thread = text(&fleet.show(&peer)["thread"]);
    let tries: Vec<(i32, String)> = [
        // What it may do.
        (0, "$SKEIN_BIN --json ls".to_owned()),
        (0, "$SKEIN_BIN --json show $SKEIN_SESSION".into()),
        (0, format!("$SKEIN_BIN --json show {peer}")),
        (0, format!("$SKEIN_BIN --json send {peer} hello --no-wait")),
        (0, "$SKEIN_BIN --json spawn child --agent none".into()),
        (0, "$SKEIN_BIN --json spawn child --agent scripted --project api".into()),
        (0, "sh -c '$SKEIN_BIN --json kill $($SKEIN_BIN --json spawn x --agent none | sed \"s/.*\\\"id\\\":\\\"\\([^\\\"]*\\).*/\\1/\")'".into()),
        (0, "$SKEIN_BIN --json events".into()),
        (0, "$SKEIN_BIN --json project ls".into()),
        (0, "$SKEIN_BIN --json transcript search hello".into()),
        // What it may not.
        (5, format!("$SKEIN_BIN --json kill {peer}")),
        (5, format!("$SKEIN_BIN --json handoff {peer} --to user:eve")),
        (5, format!("$SKEIN_BIN --json spawn x --agent none --parent {peer}")),
        (5, format!("$SKEIN_BIN --json interrupt {peer}")),
        (5, format!("$SKEIN_BIN --json answer {peer} yes")),
        (5, "$SKEIN_BIN --json answer $SKEIN_SESSION yes".into()),
        (5, format!("$SKEIN_BIN --json restore {peer}")),
        (5, format!("$SKEIN_BIN --json fork {peer}")),
        (5, format!("$SKEIN_BIN --json transcript append {peer} --role user --text x")),
        (0, "$SKEIN_BIN --json transcript append $SKEIN_SESSION --run $SKEIN_RUN --role assistant --text x".into()),
        (5, "$SKEIN_BIN --json transcript rewind $SKEIN_SESSION --to m".into()),
        (5, "$SKEIN_BIN --json token new eve --role admin --allow run".into()),
        (5, "$SKEIN_BIN --json token ls".into()),
        (5, "$SKEIN_BIN --json spawn x --agent scripted --permission full".into()),
        (4, "$SKEIN_BIN attach $SKEIN_SESSION".into()),
        (5, "$SKEIN_BIN --json project set api --width 1000".into()),
        (5, "$SKEIN_BIN --json project add --no-folder --name more".into()),
        (5, "$SKEIN_BIN --json project rm api".into()),
        (5, format!("$SKEIN_BIN --json thread archive {thread}")),
        (5, "$SKEIN_BIN --json gc --discard --yes".into()),
        (5, "$SKEIN_BIN --json daemon stop".into()),
        (5, "$SKEIN_BIN --json spawn x --agent none --owner user:ann".into()),
        (5, "$SKEIN_BIN --json kill $SKEIN_SESSION --discard --yes".into()),
        (3, format!("$SKEIN_BIN --json show {hidden}")),
        (3, format!("$SKEIN_BIN --json kill {hidden}")),
        (3, format!("$SKEIN_BIN --json send {hidden} hello --no-wait")),
        (3, format!("$SKEIN_BIN --json spawn x --agent none --parent {hidden}")),
        (3, "$SKEIN_BIN --json project show secret".into()),
        (3, "$SKEIN_BIN --json project show nothing-like-it".into()),
        (5, "$SKEIN_BIN --json --tenant other ls".into()),
        (5, format!("$SKEIN_BIN hook --strict finished --session {peer} --run 1")),
        (5, format!("$SKEIN_BIN hook --strict usage --session {peer} --run 1")),
        (5, "$SKEIN_BIN hook --strict Nothing --run 99".into()),
        (5, "env -u SKEIN_CREDENTIAL $SKEIN_BIN hook --strict finished".into()),
        (5, "env SKEIN_CREDENTIAL=${SKEIN_CREDENTIAL%?}z $SKEIN_BIN --json ls".into()),
        (0, "$SKEIN_BIN hook --strict prompt".into()),
    ]
    .into();
    let commands: Vec<String> = tries.iter().map(|(_, c)| c.clone()).collect();
    let results = attempts(&guarded, &commands);
    for ((wanted, command), (code, out)) in tries.iter().zip(&results) {
        assert_eq!(code, wanted, "{command}: {out}");
        assert!(
            !out.contains(&hidden) || command.contains(&hidden),
            "{command}: {out}"
        );
        let names_it = command.contains("secret");
        assert!(names_it || !out.contains("secret"), "{command}: {out}");
    }
    let printed = |command: &str| {
        let at = commands.iter().position(|c| c.contains(command)).unwrap();
        results[at].1.clone()
    };
    // An id of another project is answered like one that is not there.
    let (named, absent) = (printed("show secret"), printed("show nothing-like-it"));
    assert_eq!(named.replace("secret", "nothing-like-it"), absent);
    let session = fleet.json(&["ls", "--all"])["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["display_name"] == "attack")
        .unwrap()
        .clone();
    let child: Value = serde_json::from_str(&printed("spawn child --agent none")).unwrap();
    assert_eq!(child["parent"], session["id"]);
    // The log says who it was: the agent, and which run of which session.
    let events = fleet.home.events();
    let spawned = events
        .iter()
        .find(|e| e["session"] == child["id"] && e["kind"] == "session.spawned")
        .unwrap();
    assert_eq!(spawned["actor"], "agent:custom");
    assert_eq!(
        spawned["data"]["by"],
        json!({"session": session["id"], "run": 1})
    );
    let receipt: Value = serde_json::from_str(&printed("hello --no-wait")).unwrap();
    assert_eq!(fleet.receipt(&text(&receipt["id"]))["from"], session["id"]);
    let denied = events
        .iter()
        .filter(|e| e["kind"] == "audit.refused")
        .count();
    assert!(denied > 10, "{denied}");
    assert!(fleet.show(&peer)["phase"] != "ended");
    assert_eq!(fleet.show(&peer)["usage"]["input_tokens"], 0);
}

/// The permission a session was launched with, which no command shows.
fn permission(fleet: &Fleet, session: &str) -> String {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let ledger = Connection::open_with_flags(fleet.home.database(), flags).unwrap();
    let body = "SELECT body FROM records WHERE id = ?";
    let body: String = ledger.query_row(body, [session], |r| r.get(0)).unwrap();
    let record: Value = serde_json::from_str(&body).unwrap();
    text(&record["gear"]["launch"]["permission"])
}

#[test]
fn l15_a_child_gets_no_more_permission_than_its_agent_has_by_default_either() {
    let guarded = Guarded::new();
    let fleet = &guarded.fleet;
    fleet.settings("permission = \"full\"\n");
    let spawn = ["spawn", "--project", "api", "--agent", "scripted", "wait"];
    let parent = text(&fleet.json(&[&spawn[..], &["--permission", "ask"]].concat())["id"]);
    let credential = guarded.credential(&parent);
    let as_agent = |args: &[&str]| {
        let mut command = fleet.command(&[&["--json"], args].concat());
        let output = command.env("SKEIN_CREDENTIAL", &credential).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let child = as_agent(&spawn);
    assert_eq!(child["parent"], parent.as_str());
    assert_eq!(permission(fleet, &text(&child["id"])), "ask");
    // A person's own session gets the project's default.
    let other = text(&fleet.json(&spawn)["id"]);
    assert_eq!(permission(fleet, &other), "full");
}

#[test]
fn l15_a_credential_ends_with_its_run() {
    let guarded = Guarded::new();
    let (session, first) = guarded.agent("api");
    let look = Call::get(&format!("/api/v1/sessions/{session}"));
    guarded.call(&look, Some(&first)).ok();
    let hook = |run: u64| {
        let body = json!({"run": run, "event": "prompt", "payload": "{}"});
        Call::post(&format!("/api/v1/sessions/{session}/hook"), &body)
    };
    guarded.call(&hook(1), Some(&first)).ok();
    // It survives the daemon, as its agent does.
    guarded.fleet.home.kill();
    guarded
        .fleet
        .json(&["daemon", "start", "--listen", &guarded.address]);
    guarded.call(&hook(1), Some(&first)).ok();
    guarded.fleet.json(&["kill", &session]);
    guarded.fleet.until(&session, |s| s["phase"] == "ended");
    guarded.call(&look, Some(&first)).error(401);
    guarded.fleet.json(&["restore", &session]);
    let second = guarded.credential(&session);
    assert_ne!(first, second);
    guarded.call(&look, Some(&first)).error(401);
    for run in [1, 2] {
        guarded.call(&hook(run), Some(&first)).error(401);
    }
    guarded.call(&hook(1), Some(&second)).error(403);
    guarded.call(&hook(2), Some(&second)).ok();
    // Nobody speaks for an agent: not the machine's user, and no token.
    let local = guarded.fleet.home.call(&hook(2));
    assert_eq!(local.error(403)["details"]["rule"], "run_scope");
    let admin = guarded.token(&["a", "--role", "admin", "--allow", "run"]);
    guarded.call(&hook(2), Some(&admin)).error(403);
    // The credential is in no event.
    let events = serde_json::to_string(&guarded.fleet.home.events()).unwrap();
    assert!(!events.contains(first.rsplit('.').next().unwrap()));
}

#[test]
fn l15_another_homes_daemon_is_not_shown_the_credential() {
    let guarded = Guarded::new();
    let other = guarded.fleet.home.user().join("other-home");
    let inner = format!("env SKEIN_HOME={} $SKEIN_BIN --json", other.display());
    let commands = [
        format!("env -u SKEIN_SESSION {inner} daemon start"),
        format!("{inner} project add --no-folder --name mine"),
        format!("{inner} daemon stop"),
    ];
    let results = attempts(&guarded, &commands);
    for (command, (code, out)) in commands.iter().zip(results) {
        assert_eq!(code, 0, "{command}: {out}");
    }
}

#[test]
fn l15_half_open_connections_keep_nobody_out() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let guarded = Guarded::new();
    let token = guarded.token(&["r", "--role", "read"]);
    // One that has shown its token stays, whatever comes after it.
    let mut known = TcpStream::connect(&guarded.address).unwrap();
    let list = Call::get("/api/v1/projects")
        .bearer(&token)
        .header("host", &guarded.address);
    let ask = |stream: &mut TcpStream| {
        use std::io::Read as _;
        stream.write_all(&list.bytes()).unwrap();
        let mut part = [0; 4096];
        let n = stream.read(&mut part).unwrap();
        String::from_utf8_lossy(&part[..n]).into_owned()
    };
    assert!(ask(&mut known).starts_with("HTTP/1.1 200"));
    let half_open = |count: usize| -> Vec<TcpStream> {
        let open = || {
            let mut stream = TcpStream::connect(&guarded.address).unwrap();
            let head = b"GET /healthz HTTP/1.1\r\nhost: ";
            stream.write_all(head).unwrap();
            stream
        };
        (0..count).map(|_| open()).collect()
    };
    let mut all = half_open(1200);
    assert!(ask(&mut known).starts_with("HTTP/1.1 200"));
    all.extend(half_open(3000));
    // All of them still hold their place, as far as they know; others are served all the same.
    guarded.call(&Call::get("/healthz"), None).ok();
    guarded
        .call(&Call::get("/api/v1/projects"), Some(&token))
        .ok();
    let first = all.remove(0);
    let end = crate::harness::read_all(first);
    assert!(end.is_empty(), "the oldest were closed without an answer");
}

#[test]
fn l15_one_token_keeps_nobody_out_and_its_streams_end_with_it() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let guarded = Guarded::new();
    let greedy = guarded.token(&["greedy", "--role", "read"]);
    let follow = Call::get("/api/v1/events")
        .bearer(&greedy)
        .header("accept", "text/event-stream")
        .header("host", &guarded.address);
    let mut streams: Vec<TcpStream> = (0..600)
        .map(|_| {
            use std::io::Read as _;
            let mut stream = TcpStream::connect(&guarded.address).unwrap();
            stream.write_all(&follow.bytes()).unwrap();
            let mut head = [0; 16];
            stream.read_exact(&mut head).unwrap();
            stream
        })
        .collect();
    let other = guarded.token(&["other", "--role", "read"]);
    guarded
        .call(&Call::get("/api/v1/projects"), Some(&other))
        .ok();
    // Its own oldest had to go; its newest is there until the token is not, though nothing happens meanwhile.
    crate::harness::read_all(streams.remove(0));
    let tokens = guarded.fleet.json(&["token", "ls"]);
    let id = tokens["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|t| t["name"] == "greedy")
        .map(|t| text(&t["id"]));
    guarded.fleet.json(&["token", "rm", &id.unwrap()]);
    crate::harness::read_all(streams.pop().unwrap());
}
