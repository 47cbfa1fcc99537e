//! What agents cost: starting them beside doing the same by hand, holding 200 of them, finding them again,
//! talking to them beside tmux.

mod talking;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use skein_client::{Client, IdempotencyKey, Page, Sessions};
use skein_wire::{AddProject, Session, Spawn};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::Failure;
use crate::daemon::{Daemon, Program, megabytes};
use crate::place::{FILES, MANY_FILES, Tmux, end_marked, git, repository};
use crate::stats::{Times, ms, ratio};
use crate::table::Row;

const ALONE: usize = 25;
const TOGETHER: usize = 20;
const FLEET: usize = 200;
/// Spawns in a large repository, and how long the daemon may refill its pool before each.
const FEW: usize = 7;
const REFILL: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(120);
/// What both sides start: nothing but a process that waits, whatever task it is given.
const AGENT: &str = "sh -c 'exec sleep 1000' agent";

/// A repository and a home with a daemon; its agents end with it.
struct Ground {
    folder: TempDir,
    daemon: Option<Daemon>,
}

impl Ground {
    async fn new(program: &Program) -> Result<Self, Failure> {
        Self::with(program, FILES, "").await
    }

    /// With so many files and these settings of the project.
    async fn with(program: &Program, files: usize, settings: &str) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let mut ground = Self {
            folder,
            daemon: None,
        };
        fs::create_dir(ground.home())?;
        let repo = ground.repo();
        repository(&repo, files)?;
        fs::write(repo.join("skein.toml"), settings)?;
        let (daemon, _) = program.daemon(&ground.home())?;
        let project = AddProject {
            path: Some(repo.display().to_string()),
            name: Some("bench".into()),
            ..AddProject::default()
        };
        daemon
            .client()
            .add_project(&project, &IdempotencyKey::random())
            .await?;
        ground.daemon = Some(daemon);
        Ok(ground)
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    fn daemon(&self) -> Result<&Daemon, Failure> {
        self.daemon.as_ref().ok_or_else(|| "no daemon".into())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.daemon = None;
        // Their holders end with them.
        end_marked(&format!("SKEIN_HOME={}", self.home().display()));
    }
}

pub(crate) async fn measure(program: &Program) -> Result<Vec<Row>, Failure> {
    let mut rows = vec![];
    rows.extend(talking::measure(program).await?);
    rows.extend(holding(program).await?);
    Ok(rows)
}

fn waiting_agent(n: usize) -> Spawn {
    Spawn {
        task: format!("wait {n}"),
        project: Some("bench".into()),
        agent: Some("custom".into()),
        command: Some(AGENT.into()),
        prompt_via: Some("argv".into()),
        path: Some("/usr/bin:/bin".into()),
        ..Spawn::default()
    }
}

/// From the request until the agent runs.
async fn spawn(client: &Client, body: &Spawn) -> Result<(String, Duration), Failure> {
    let since = Instant::now();
    let session = client.spawn(body, &IdempotencyKey::random()).await?;
    loop {
        let now = client.get_session(&session.id).await?;
        if now.phase != "spawning" {
            if now.phase == "ended" {
                return Err(format!("{} ended: {}", now.id, now.status_reason).into());
            }
            return Ok((session.id, since.elapsed()));
        }
        if since.elapsed() > LONGEST {
            return Err(format!("{} was never set up", session.id).into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The same by hand: a worktree with a branch, and the process in it.
fn by_hand(repo: &Path, folder: &Path, n: usize) -> Result<(Child, Duration), Failure> {
    let since = Instant::now();
    let path = folder.join(format!("hand{n}"));
    let text = path.display().to_string();
    let branch = format!("hand{n}");
    git(
        repo,
        &["worktree", "add", "--quiet", "-b", &branch, &text, "main"],
    )?;
    let child = Command::new("sh")
        .args(["-c", "exec sleep 1000", "agent"])
        .current_dir(&path)
        .stdin(Stdio::null())
        .spawn()?;
    Ok((child, since.elapsed()))
}

pub(crate) async fn measure_spawns(program: &Program) -> Result<Vec<Row>, Failure> {
    let ground = Ground::new(program).await?;
    let (ours, hand) = alone(&ground, ALONE, Duration::ZERO).await?;
    let beyond = ours.p50().saturating_sub(hand.p50());
    let mut rows = vec![
        Row::fact("spawn alone, p50", ms(ours.p50())).beside(
            format!("worktree and process by hand {}", ms(hand.p50())),
            ratio(ours.p50(), hand.p50()),
        ),
        Row::fact("what spawn adds, p50", ms(beyond))
            .budget("≤ 25 ms", beyond <= Duration::from_millis(25)),
    ];
    rows.push(together(&ground).await?);
    rows.push(beside_new_session(&ground).await?);
    Ok(rows)
}

/// One spawn after another, each beside the same by hand. Once each for warm caches, then in turn; `rest` lets the
/// daemon refill its pool.
async fn alone(ground: &Ground, count: usize, rest: Duration) -> Result<(Times, Times), Failure> {
    let client = ground.daemon()?.client();
    let (mut ours, mut hand) = (vec![], vec![]);
    for n in 0..=count {
        thread::sleep(rest);
        let (_, took) = spawn(&client, &waiting_agent(n)).await?;
        thread::sleep(rest);
        let (child, by_hand) = by_hand(&ground.repo(), ground.folder.path(), n)?;
        reap(child);
        if n > 0 {
            ours.push(took);
            hand.push(by_hand);
        }
    }
    Ok((Times::new(ours), Times::new(hand)))
}

pub(crate) async fn measure_large(program: &Program) -> Result<Vec<Row>, Failure> {
    let mut rows = vec![];
    for (settings, pool) in [("", "no pool"), ("pool = 2\n", "from the pool")] {
        let ground = Ground::with(program, MANY_FILES, settings).await?;
        let (ours, hand) = alone(&ground, FEW, REFILL).await?;
        let what = format!("spawn alone, {MANY_FILES} files, {pool}, p50");
        rows.push(Row::fact(what, ms(ours.p50())).beside(
            format!("worktree and process by hand {}", ms(hand.p50())),
            ratio(ours.p50(), hand.p50()),
        ));
        if settings.is_empty() {
            let mut row = together(&ground).await?;
            row.work = format!("{}, {MANY_FILES} files", row.work);
            rows.push(row);
        }
    }
    Ok(rows)
}

/// An agent in a terminal and nothing else, beside `tmux new-session`, which keeps no record of it.
async fn beside_new_session(ground: &Ground) -> Result<Row, Failure> {
    let client = ground.daemon()?.client();
    let tmux = Tmux::new(ground.folder.path());
    // The server is there before anything is measured, as our daemon is.
    tmux.run(&["new-session", "-d", "-s", "first", AGENT])?;
    let (mut ours, mut theirs) = (vec![], vec![]);
    for n in 0..ALONE {
        let bare = Spawn {
            workspace: Some("none".into()),
            ..waiting_agent(2000 + n)
        };
        ours.push(spawn(&client, &bare).await?.1);
        let since = Instant::now();
        tmux.run(&["new-session", "-d", "-s", &format!("peer{n}"), AGENT])?;
        theirs.push(since.elapsed());
    }
    tmux.run(&["kill-server"])?;
    let (ours, theirs) = (Times::new(ours), Times::new(theirs));
    Ok(
        Row::fact("spawn without a workspace, p50", ms(ours.p50())).beside(
            format!("tmux new-session {}", ms(theirs.p50())),
            ratio(ours.p50(), theirs.p50()),
        ),
    )
}

fn reap(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

async fn together(ground: &Ground) -> Result<Row, Failure> {
    let since = Instant::now();
    let mut all = JoinSet::new();
    for n in 0..TOGETHER {
        let client = ground.daemon()?.client();
        all.spawn(async move {
            spawn(&client, &waiting_agent(1000 + n))
                .await
                .map_err(|e| e.to_string())
        });
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    let ours = since.elapsed();
    let since = Instant::now();
    let (repo, folder) = (ground.repo(), ground.folder.path().to_owned());
    let children = thread::scope(|scope| {
        let threads: Vec<_> = (0..TOGETHER)
            .map(|n| {
                let (repo, folder) = (&repo, &folder);
                scope.spawn(move || {
                    // git worktree add fails when two register at once; people try again.
                    for attempt in 0..50 {
                        if let Ok((child, _)) = by_hand(repo, folder, 1000 + n + attempt * 100) {
                            return Some(child);
                        }
                    }
                    None
                })
            })
            .collect();
        threads
            .into_iter()
            .filter_map(|t| t.join().ok().flatten())
            .collect::<Vec<_>>()
    });
    let hand = since.elapsed();
    children.into_iter().for_each(reap);
    let times = ratio(ours, hand);
    Ok(Row::fact(format!("{TOGETHER} spawns at once"), ms(ours))
        .beside(format!("by hand at once {}", ms(hand)), times)
        .budget("≤ 1.15 ×", times <= 1.15))
}

/// Two hundred agents that do nothing.
async fn holding(program: &Program) -> Result<Vec<Row>, Failure> {
    let mut ground = Ground::new(program).await?;
    let client = ground.daemon()?.client();
    for chunk in 0..FLEET / TOGETHER {
        let mut all = JoinSet::new();
        for n in 0..TOGETHER {
            let client = ground.daemon()?.client();
            all.spawn(async move {
                spawn(&client, &waiting_agent(chunk * TOGETHER + n))
                    .await
                    .map_err(|e| e.to_string())
            });
        }
        while let Some(done) = all.join_next().await {
            done??;
        }
    }
    let holders = holders(&list(&client).await?);
    let private: Vec<u64> = holders.iter().filter_map(|pid| private(*pid)).collect();
    let most = private.iter().copied().max().unwrap_or(0);
    let before = forks()?;
    let listed = list(&client).await?.len();
    let started = forks()? - before;
    let daemon = ground.daemon()?;
    let resident = daemon.resident()?;
    let cpu = daemon.cpu()?;
    thread::sleep(IDLE);
    let idle = (daemon.cpu()? - cpu).as_secs_f64() / IDLE.as_secs_f64();
    ground.daemon = None;
    let (again, ready) = program.daemon(&ground.home())?;
    let found = all_found(&again.client()).await?;
    ground.daemon = Some(again);
    Ok(vec![
        Row::fact(
            format!("private memory of {} holders, most", holders.len()),
            megabytes(most),
        )
        .budget("≤ 2 MB", most <= 2_000_000 && holders.len() >= FLEET),
        Row::fact(
            format!("processes started on this machine by a list of {listed}"),
            started.to_string(),
        )
        .budget("0", started == 0 && listed >= FLEET),
        Row::fact(
            format!("daemon memory with {FLEET} agents"),
            megabytes(resident),
        )
        .budget("≤ 60 MB", resident <= 60_000_000),
        Row::fact(
            format!("idle for 30 s with {FLEET} agents"),
            format!("{:.2} % of a core", idle * 100.0),
        )
        .budget("< 1 %", idle < 0.01),
        Row::fact(format!("restart to ready with {FLEET} agents"), ms(ready))
            .budget("≤ 1 s", ready <= Duration::from_secs(1)),
        Row::fact("the same, until every agent was seen alive", ms(found)),
    ])
}

/// The processes that hold these agents: their parents.
fn holders(sessions: &[Session]) -> BTreeSet<u32> {
    let agents = sessions.iter().filter_map(|s| s.runtime.pid);
    agents.filter_map(parent).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

/// Private memory of a process: what would come back if it ended, but for the program's own pages.
fn private(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("Private_Dirty:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Processes made on this machine since it started.
fn forks() -> Result<u64, Failure> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().find_map(|l| l.strip_prefix("processes "));
    Ok(line.ok_or("no count of processes")?.trim().parse()?)
}

async fn list(client: &Client) -> Result<Vec<Session>, Failure> {
    let which = Sessions {
        page: Page {
            limit: Some(1000),
            ..Page::default()
        },
        ..Sessions::default()
    };
    Ok(client.list_sessions(&which).await?.data)
}

async fn all_found(client: &Client) -> Result<Duration, Failure> {
    let since = Instant::now();
    loop {
        let all = list(client).await?;
        let alive = all.iter().filter(|s| s.runtime.state == "alive");
        if alive.count() >= FLEET {
            return Ok(since.elapsed());
        }
        if since.elapsed() > LONGEST {
            return Err("agents were not found again".into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
