//! A schema-driven fuzzer (schemathesis) against the real daemon over TCP: whatever it sends, the answer is one
//! the OpenAPI document describes, and never a server error (L13).
//!
//! `SKEIN_TEST_SCHEMATHESIS` names the program; `./test` installs it. A second pass with ids that exist takes
//! the fuzzer behind the first "not found".

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,negative_data_rejection,unsupported_method,\
    use_after_free";
/// Stopping the daemon would end the test, revoking tokens would lock the fuzzer out, and it can make no snapshots.
const LEFT_OUT: &str =
    "^/api/v1/daemon/stop$|^/api/v1/tokens/.token.$|^/api/v1/sessions/.session./transcript/import$";

#[test]
fn heavy_l13_the_api_survives_a_schema_driven_fuzzer() {
    let fuzzer = fuzzer();
    let home = tempfile::tempdir().unwrap();
    let _daemon = Daemon::start(home.path());
    let status = skein(home.path(), &["daemon", "status", "--json"]);
    let target = Target {
        url: format!("http://{}", text(&status, "listen")),
        token: secret(home.path()),
    };
    target.fuzz(&fuzzer, home.path(), "");
    target.fuzz(&fuzzer, home.path(), &existing_ids(home.path()));

    let now = skein(home.path(), &["daemon", "status", "--json"]);
    assert_eq!(now["pid"], status["pid"], "it was restarted in between");
    let verdict = skein(home.path(), &["events", "verify", "--json"]);
    assert_eq!(verdict["ok"], true, "{verdict}");
    let log = logs(home.path());
    assert!(!log.contains("panicked"), "{log}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's own setting, which the program never reads"
)]
fn fuzzer() -> PathBuf {
    let path = std::env::var_os("SKEIN_TEST_SCHEMATHESIS").map(PathBuf::from);
    path.filter(|path| path.is_file()).expect(
        "SKEIN_TEST_SCHEMATHESIS must name the schemathesis program; `./test` installs it and sets this",
    )
}

struct Target {
    url: String,
    token: String,
}

impl Target {
    fn fuzz(&self, fuzzer: &Path, home: &Path, config: &str) {
        let file = home.join("schemathesis.toml");
        std::fs::write(&file, config).unwrap();
        let output = Command::new(fuzzer)
            .arg("--config-file")
            .arg(&file)
            .args(["run", &format!("{}/api/v1/openapi.json", self.url)])
            .args(["--header", &format!("Authorization: Bearer {}", self.token)])
            .args(["--checks", CHECKS, "--exclude-path-regex", LEFT_OUT])
            .args(["--max-examples", "30", "--workers", "2", "--seed", "2"])
            .args(["--request-timeout", "10", "--generation-database", "none"])
            .args(["--warnings", "off", "--no-color"])
            .current_dir(home)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{complained}");
    }
}

/// One record of each kind, in a form that the fuzzer takes as the values of path parameters.
fn existing_ids(home: &Path) -> String {
    let project = skein(home, &["project", "add", "--name", "fuzzed", "--json"]);
    let thread = skein(
        home,
        &["thread", "new", "t", "--project", "fuzzed", "--json"],
    );
    let session = skein(home, &["spawn", "a task", "--project", "fuzzed", "--json"]);
    format!(
        "[parameters]\n\"path.project\" = {}\n\"path.thread\" = {}\n\"path.session\" = {}\n",
        project["id"], thread["id"], session["id"]
    )
}

fn secret(home: &Path) -> String {
    let made = skein(
        home,
        &["token", "new", "fuzzer", "--role", "admin", "--json"],
    );
    text(&made, "secret").to_owned()
}

fn skein(home: &Path, args: &[&str]) -> Value {
    let output = command(home).args(args).output().unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {complained}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skein"));
    command
        .env_clear()
        .env("SKEIN_HOME", home)
        .env("USER", "fuzz")
        .current_dir(home);
    command
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_else(|| panic!("{object}"))
}

fn logs(home: &Path) -> String {
    let files = std::fs::read_dir(home.join("logs")).unwrap();
    files
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect()
}

/// Killed when dropped, so that a failing test leaves none behind.
struct Daemon(Child);

impl Daemon {
    fn start(home: &Path) -> Self {
        std::fs::create_dir_all(home.join("logs")).unwrap();
        let panics = std::fs::File::create(home.join("logs/stderr.log")).unwrap();
        let mut child = command(home)
            .args(["daemon", "run", "--announce", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(panics)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
