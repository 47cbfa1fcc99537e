//! How a holder starts when the run before it, or its cgroup, is in the way.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

const MARK: &str = "default/q-1/1/1.2.";

/// Runs the stage that starts the agent and gives its report. A holder that started its agent goes on.
fn hold(folder: &Path, group: &Path) -> (Child, Value) {
    let spec = json!({
        "folder": folder, "argv": ["/bin/sh", "-c", "touch started; exec sleep 600"], "env": {},
        "cwd": folder.parent().unwrap(), "stdin": null, "rows": 24, "cols": 80,
        "log": folder.parent().unwrap().join("log"), "mark": format!("{MARK}new"),
    });
    let mut holder = Command::new(env!("CARGO_BIN_EXE_skein-holder"))
        .arg("--hold")
        .args([group, folder])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = holder.stdin.take().unwrap();
    stdin.write_all(spec.to_string().as_bytes()).unwrap();
    drop(stdin);
    let said = std::io::read_to_string(holder.stdout.take().unwrap()).unwrap();
    (holder, serde_json::from_str(&said).unwrap())
}

/// A cgroup with what a test put into it, which ends with it.
struct Group(PathBuf, Option<Child>);

impl Group {
    /// None where this user may not make one.
    fn new(path: PathBuf) -> Option<Self> {
        fs::create_dir(&path).ok()?;
        Some(Self(path, None))
    }

    fn write(&self, file: &str, text: &str) -> bool {
        fs::write(self.0.join(file), text).is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("freezer.state"), "THAWED");
        if let Some(child) = &mut self.1 {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn l4_no_second_agent_starts_beside_one_that_cannot_be_ended() {
    let path = format!("/sys/fs/cgroup/freezer/skein-test.{}", std::process::id());
    let Some(mut freezer) = Group::new(path.into()) else {
        eprintln!("skipped: only a freezer of cgroup v1 makes a process that survives SIGKILL");
        return;
    };
    let earlier = Command::new("sleep")
        .arg("600")
        .env("SKEIN_RUN_MARK", format!("{MARK}old"))
        .spawn()
        .unwrap();
    let id = earlier.id().to_string();
    freezer.1 = Some(earlier);
    assert!(freezer.write("cgroup.procs", &id));
    assert!(freezer.write("freezer.state", "FROZEN"));

    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    fs::create_dir(&folder).unwrap();
    let record = json!({ "mark": format!("{MARK}old"), "holder": 1, "group": null, "agent": null });
    fs::write(folder.join("run.json"), record.to_string()).unwrap();
    let (mut holder, report) = hold(&folder, Path::new(""));
    let started = home.path().join("started").exists();
    let _ = holder.kill();
    holder.wait().unwrap();
    let why = report["failed"]["why"].as_str().unwrap_or_default();
    assert!(why.contains("earlier agent"), "{report}");
    assert!(!started);
    assert!(
        folder.join("run.json").exists(),
        "the next attempt finds it"
    );
}

#[test]
fn l3_a_holder_that_cannot_enter_its_cgroup_starts_the_agent_without() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" cgroup2 "));
    let parent = mount.and_then(|line| line.split(' ').nth(1)).map(Path::new);
    let name = format!("skein-test.{}", std::process::id());
    let threaded = parent.and_then(|parent| Group::new(parent.join(name)));
    let Some(threaded) = threaded.filter(|group| group.write("cgroup.type", "threaded")) else {
        eprintln!("skipped: this user cannot make a threaded cgroup");
        return;
    };
    // Nothing can be moved into a cgroup below a threaded one.
    let name = format!("skein.{}new", MARK.replace('/', "."));
    let group = Group::new(threaded.0.join(name)).unwrap();

    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    let (mut holder, report) = hold(&folder, &group.0);
    let record = fs::read(folder.join("run.json")).unwrap_or_default();
    let record: Value = serde_json::from_slice(&record).unwrap_or_default();
    // Told to end, a holder ends its agent.
    let _ = Command::new("kill").arg(holder.id().to_string()).status();
    holder.wait().unwrap();
    drop(group);
    assert!(report["started"]["pid"].is_i64(), "{report}");
    assert_eq!(record["group"], Value::Null);
}
