//! No name is read as a command, no secret reaches a window, and no other tmux is touched.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::Daemon;
use crate::harness::{Fleet, eventually, text};
use crate::tmux::screen::{Tmux, command, shown};

#[test]
fn l15_a_hostile_task_names_no_window_and_runs_nothing() {
    let fleet = Fleet::new();
    let task = "say #(touch pwned) $(touch pwned) `touch pwned` ; new-window touch pwned ;";
    let session = shown(&fleet, task, &["--branch", "a;b#{pid}"]);
    let tmux = Tmux::of(&fleet);
    assert_eq!(tmux.windows(), ["api-1:0 api-1"]);
    tmux.until_shows("api-1", "touch pwned");
    assert_eq!(fleet.prompts(&session), [task]);
    for folder in [fleet.folder(&session), fleet.repo.clone(), "/".into()] {
        assert!(!folder.join("pwned").exists(), "{}", folder.display());
    }
}

/// The sockets of a home with a long path are in a folder outside of it.
struct Outside(PathBuf);

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn l15_a_home_with_a_hostile_path_has_windows_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("{};", "x".repeat(120));
    for name in ["a #{pid} 'quoted' $HOME; %H;", long.as_str()] {
        let fleet = Fleet::at(folder.path().join(name));
        let socket = PathBuf::from(text(&fleet.json(&["daemon", "status"])["socket"]));
        let sockets = socket.parent().unwrap();
        let is_outside = !sockets.starts_with(folder.path());
        assert_eq!(is_outside, name == long);
        let _outside = is_outside.then(|| Outside(sockets.to_owned()));
        let session = shown(&fleet, "say hello", &[]);
        let tmux = Tmux::at(&fleet, sockets.join("tmux.sock"));
        assert_eq!(tmux.windows(), ["api-1:0 api-1"]);
        tmux.types("api-1", "say typed");
        tmux.until_shows("api-1", "» say typed");
        // A shell reads the command as one program and its arguments.
        let line = command(&fleet, &session).replace("attach -t api-1", "has-session -t api-1");
        let status = fleet.home.program("sh").args(["-c", &line]).status();
        assert!(status.unwrap().success(), "{line}");
        fleet.json(&["kill", &session]);
        tmux.until_windows(&[]);
    }
}

#[test]
fn l14_the_tmux_server_and_its_windows_have_no_secrets_and_nothing_of_the_daemons() {
    let fleet = Fleet::new();
    fleet.json(&["daemon", "stop"]);
    let mut daemon = fleet.command(&["daemon", "run", "--announce"]);
    for (name, value) in [
        ("ANTHROPIC_API_KEY", "hunter2"),
        ("SKEIN_CREDENTIAL", "hunter2.of.another.run"),
        ("SKEIN_TOKEN", "hunter2"),
        ("TMUX", "/tmp/another,1,0"),
    ] {
        daemon.env(name, value);
    }
    let daemon = Daemon::announced(daemon).unwrap();
    shown(&fleet, "say hello", &["--env", "API_TOKEN=hunter2"]);
    let tmux = Tmux::of(&fleet);
    let server = tmux.server();
    let viewer: i32 = tmux.ask("api-1", "#{pane_pid}").parse().unwrap();
    tmux.run(&[
        "new-window",
        "-d",
        "-t",
        "api-1:",
        "-n",
        "mine",
        "exec sleep 1000",
    ]);
    let added: i32 = tmux.ask("api-1:mine", "#{pane_pid}").parse().unwrap();
    for pid in [server, viewer, added] {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
        let environ = String::from_utf8_lossy(&environ).replace('\0', "\n");
        assert!(!environ.contains("hunter2"), "{environ}");
        assert!(!environ.contains("SKEIN_CREDENTIAL"), "{environ}");
        let home = format!("SKEIN_HOME={}\n", fleet.home.root().display());
        assert!(environ.contains(&home), "{environ}");
    }
    // It would hold the home's locks and files beyond the daemon's end.
    let open = fs::read_dir(format!("/proc/{server}/fd"))
        .unwrap()
        .flatten();
    let open = open.filter_map(|fd| fs::read_link(fd.path()).ok());
    let held: Vec<PathBuf> = open.filter(|p| p.starts_with(fleet.home.root())).collect();
    assert!(held.is_empty(), "{held:?}");
    let cwd = fs::read_link(format!("/proc/{server}/cwd")).unwrap();
    assert_eq!(cwd, Path::new("/"));
    let socket = fs::symlink_metadata(fleet.home.root().join("tmux.sock")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&socket.permissions());
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    daemon.kill();
}

#[test]
fn two_homes_two_tenants_and_the_users_own_tmux_do_not_meet() {
    let (one, two) = (Fleet::new(), Fleet::new());
    let own = Tmux::at(&one, one.home.user().join("own.sock"));
    own.run(&[
        "new-session",
        "-d",
        "-s",
        "api-1",
        "-n",
        "own",
        "sleep 1000",
    ]);
    shown(&one, "say one", &["--workspace", "none"]);
    shown(&two, "say two", &[]);
    let (first, second) = (Tmux::of(&one), Tmux::of(&two));
    first.until_shows("api-1", "one");
    second.until_shows("api-1", "two");

    let tenant = |args: &[&str]| one.home.json_as("acme", args);
    let repo = one.repo.display().to_string();
    tenant(&["project", "add", &repo, "--name", "api"]);
    let spawn = [
        "spawn",
        "--project",
        "api",
        "--agent",
        "scripted",
        "--runtime",
        "tmux",
    ];
    let there = ["--workspace", "none", "say acme"];
    let acme = tenant(&[&spawn[..], &there].concat());
    assert_eq!(acme["id"], "api-1");
    first.until_windows(&["acme/api-1:0 api-1", "api-1:0 api-1"]);
    first.until_shows("acme/api-1", "acme");

    one.json(&["kill", "api-1"]);
    first.until_windows(&["acme/api-1:0 api-1"]);
    assert_eq!(second.windows(), ["api-1:0 api-1"]);
    tenant(&["kill", "api-1"]);
    first.until_windows(&[]);
    eventually(
        || (second.windows().len() == 1).then_some(()),
        || format!("{:?}", second.windows()),
    );
    assert_eq!(own.windows(), ["api-1:0 own"]);
    assert_eq!(own.run(&["show-options", "-gv", "status"]).trim(), "on");
    own.run(&["kill-server"]);
}
