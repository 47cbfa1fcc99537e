//! Projects: folders with rules.

use std::io::Read as _;
use std::path::Path;

use skein_domain::{
    Conflict, Fact, Invalid, Limits, Name, NotFound, Prefix, Project, ProjectId, Refused,
    Retention, Right, Role, Session, Thread, gate,
};
use skein_store::backend::{RowFilter, SortOrder};
use skein_store::{Entity, Reader, RecordPage, RecordQuery, Writer};

use crate::caller::{Answer, RequestOutcome};
use crate::error::{Error, StoreResult};
use crate::filter::live;
use crate::requests::ProjectRequests;
use crate::tasks::blocking;

#[derive(Clone, Debug, Default)]
pub struct AddProject {
    pub name: Option<Name>,
    pub path: Option<String>,
    pub prefix: Option<Prefix>,
    pub settings: ProjectUpdate,
}

/// A change of a project's settings: `None` leaves a setting as it is, zero switches a retention rule off.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProjectUpdate {
    pub depth: Option<u32>,
    pub width: Option<u32>,
    pub idle_ttl_seconds: Option<u64>,
    pub max_ended: Option<u32>,
}

impl ProjectUpdate {
    fn check(&self) -> Result<(), Invalid> {
        let limits = [
            ("depth", self.depth, Limits::MOST_DEPTH),
            ("width", self.width, Limits::MOST_WIDTH),
        ];
        for (what, value, most) in limits {
            if let Some(value) = value
                && value > most
            {
                let why = format!("the most is {most}");
                return Err(Invalid::new(what, &value.to_string(), why));
            }
        }
        Ok(())
    }

    fn apply(&self, limits: &mut Limits, retention: &mut Retention) {
        limits.depth = self.depth.unwrap_or(limits.depth);
        limits.width = self.width.unwrap_or(limits.width);
        if let Some(ttl) = self.idle_ttl_seconds {
            retention.idle_ttl_seconds = (ttl > 0).then_some(ttl);
        }
        if let Some(most) = self.max_ended {
            retention.max_ended = (most > 0).then_some(most);
        }
    }
}

const fn by_name(name: &str) -> (&'static str, &str) {
    ("project-name", name)
}

fn claim((kind, value): (&str, &str)) -> String {
    format!("{kind}:{value}")
}

/// Finds a project by id, name, or unique beginning of its id, in this order: a name cannot stand in for
/// an id.
pub fn resolve(reader: &Reader<'_>, reference: &str) -> StoreResult<Project> {
    let project: Project = match reader.find(reference)? {
        Some(project) => project,
        None => match reader.claimed_by(&claim(by_name(reference)))? {
            Some(id) => reader
                .find(&id)?
                .ok_or_else(|| NotFound::new("project", reference))?,
            None => reader.resolve(reference)?,
        },
    };
    if project.removed_at.is_some() {
        return Err(NotFound::new("project", reference).into());
    }
    Ok(project)
}

impl ProjectRequests<'_> {
    pub async fn add(self, add: AddProject) -> Result<Answer, Error> {
        add.settings.check()?;
        if add.path.is_some() && !self.0.caller.local {
            // The folder's skein.toml names programs that the daemon starts.
            let op = "add a folder of the daemon's machine";
            let role = self.0.caller.role.require(Role::Admin, op);
            if let Err(refused) = role.and_then(|()| self.0.caller.rights.require(Right::Run, op)) {
                return Err(self.0.refused(op, refused.into()).await);
            }
        }
        let path = match add.path {
            Some(path) => Some(canonical(path).await?),
            None => None,
        };
        if let Some(path) = &path
            && self.0.ledger.managed.is_managed(path)
        {
            let why = "it is the workspace of a session, which comes and goes with it";
            return Err(Invalid::new("path", path, why).into());
        }
        let name = match (add.name, &path) {
            (Some(name), _) => name,
            (None, Some(path)) => name_from(path)?,
            (None, None) => {
                return Err(
                    Invalid::new("name", "", "a project without a folder needs one").into(),
                );
            }
        };
        let id = ProjectId::from_random(self.0.ledger.ids.bits());
        let (settings, prefix) = (add.settings, add.prefix);
        self.0
            .change("add a project", Role::Operate, move |writer| {
                // The folder first: if a folder is added twice, the error names the folder and not the name made from it.
                if let Some(path) = &path {
                    take(writer, "project-path", path, &id, |project| {
                        Conflict::PathTaken {
                            path: path.clone(),
                            project,
                        }
                    })?;
                }
                take(writer, "project-name", name.as_str(), &id, |project| {
                    Conflict::NameTaken {
                        name: name.to_string(),
                        project,
                    }
                })?;
                let prefix = take_prefix(writer, prefix.as_ref(), &name, &id)?;
                let (mut limits, mut retention) = (Limits::default(), Retention::default());
                settings.apply(&mut limits, &mut retention);
                let project = Project {
                    id: id.clone(),
                    name: name.clone(),
                    path: path.clone(),
                    prefix,
                    limits,
                    retention,
                    version: 1,
                    created_at: writer.now(),
                    updated_at: writer.now(),
                    removed_at: None,
                };
                writer.insert(&project)?;
                writer.append_event(&Fact::ProjectAdded {
                    project: project.id.clone(),
                    name: project.name.clone(),
                    path: project.path.clone(),
                    prefix: project.prefix.to_string(),
                })?;
                Ok(RequestOutcome::Project(project))
            })
            .await
    }

    pub async fn set(
        self,
        reference: String,
        expect_version: Option<u64>,
        settings: ProjectUpdate,
    ) -> Result<Answer, Error> {
        settings.check()?;
        self.0
            .change("change a project", Role::Admin, move |writer| {
                let before = resolve(&writer.reader(), &reference)?;
                if let Some(expected) = expect_version
                    && expected != before.version
                {
                    let id = before.id.to_string();
                    return Err(Conflict::Version {
                        what: "project",
                        id,
                        expected,
                        actual: before.version,
                    }
                    .into());
                }
                let mut after = Project {
                    version: before.version + 1,
                    updated_at: writer.now(),
                    ..before.clone()
                };
                settings.apply(&mut after.limits, &mut after.retention);
                if (after.limits, after.retention) == (before.limits, before.retention) {
                    return Ok(RequestOutcome::Project(before));
                }
                writer.update(&after)?;
                writer.append_event(&Fact::ProjectChanged {
                    project: after.id.clone(),
                    limits: after.limits,
                    retention: after.retention,
                })?;
                Ok(RequestOutcome::Project(after))
            })
            .await
    }

    /// Removes a project whose threads are all archived or deleted. Its folder and name are free again; its prefix is
    /// not, because ids are never given twice. Its threads and sessions stay readable.
    pub async fn remove(self, reference: String) -> Result<Answer, Error> {
        self.0
            .change("remove a project", Role::Admin, move |writer| {
                let before = resolve(&writer.reader(), &reference)?;
                refuse_if_any::<Thread>(writer, &before, ["open thread is", "open threads are"])?;
                refuse_if_any::<Session>(
                    writer,
                    &before,
                    ["live session is", "live sessions are"],
                )?;
                let now = writer.now();
                let after = Project {
                    version: before.version + 1,
                    updated_at: now,
                    removed_at: Some(now),
                    ..before
                };
                writer.update(&after)?;
                writer.release(&claim(by_name(after.name.as_str())))?;
                if let Some(path) = &after.path {
                    writer.release(&claim(("project-path", path)))?;
                }
                writer.append_event(&Fact::ProjectRemoved {
                    project: after.id.clone(),
                })?;
                Ok(RequestOutcome::Project(after))
            })
            .await
    }

    pub async fn get(self, reference: String) -> Result<Project, Error> {
        self.0.read(move |reader| resolve(reader, &reference)).await
    }

    pub async fn list(
        self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<RecordPage<Project>, Error> {
        let filter = live();
        self.0
            .read(move |reader| {
                reader.list(&RecordQuery {
                    filter,
                    order: SortOrder::OldestFirst,
                    after,
                    limit,
                })
            })
            .await
    }

    /// The project whose folder is `path` or the nearest one around it, within the repository that holds `path`: a
    /// repository inside a project's folder is not part of that project. For the machine's own user the daemon
    /// follows links and looks for repositories; for other callers it only compares paths, because an answer that
    /// depends on the disk would reveal what is there.
    pub async fn around(self, path: String) -> Result<Option<Project>, Error> {
        let (path, folders) = if self.0.caller.local {
            let path = canonical(path).await?;
            let start = path.clone();
            let folders = blocking(move || folders_of_repository(&start))
                .await
                .map_err(|_| Error::Stopped)?;
            (path, folders)
        } else {
            let folders = Path::new(&path).ancestors().filter_map(Path::to_str);
            let folders = folders.map(str::to_owned).collect();
            (path, folders)
        };
        // A managed workspace belongs to its session's project, whatever folder lies around it.
        let session = self.0.ledger.managed.session_around(self.0.tenant(), &path);
        self.0
            .read(move |reader| {
                if let Some(session) = &session
                    && let Some(session) = reader.find::<Session>(session)?
                {
                    return reader.find(session.project.as_str());
                }
                for folder in &folders {
                    if let Some(id) = reader.claimed_by(&claim(("project-path", folder)))? {
                        return reader.find(&id);
                    }
                }
                Ok(None)
            })
            .await
    }
}

/// `path` and the folders around it, up to the root of the repository that holds it. The main folder follows a
/// linked worktree, because both are one repository.
fn folders_of_repository(path: &str) -> Vec<String> {
    let mut folders = vec![];
    for folder in Path::new(path).ancestors() {
        folders.extend(folder.to_str().map(str::to_owned));
        let git = folder.join(".git");
        if git.symlink_metadata().is_ok() {
            folders.extend(main_folder(&git));
            break;
        }
    }
    folders
}

/// The main folder of the repository whose linked worktree has this `.git` file.
fn main_folder(git: &Path) -> Option<String> {
    const LONGEST: u64 = 64 * 1024;
    if !git.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let file = std::fs::File::open(git).ok()?;
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    let private = git.parent()?.join(text.strip_prefix("gitdir:")?.trim());
    let private = private.canonicalize().ok()?;
    let worktrees = private.parent().filter(|dir| dir.ends_with("worktrees"))?;
    let repository = worktrees.parent().filter(|dir| dir.ends_with(".git"))?;
    repository.parent()?.to_str().map(str::to_owned)
}

/// Refuses to remove a project with live records of this kind.
fn refuse_if_any<E: Entity>(
    writer: &Writer<'_>,
    project: &Project,
    [one, several]: [&'static str; 2],
) -> StoreResult<()> {
    let live = RowFilter {
        project: Some(project.id.to_string()),
        live: Some(true),
        ..RowFilter::default()
    };
    let total = writer.reader().count::<E>(&live)?;
    if total == 0 {
        return Ok(());
    }
    let sample = RecordQuery::oldest_first(live, gate::SAMPLE);
    let offenders = writer.reader().list::<E>(&sample)?.items;
    Err(Refused::ProjectNotEmpty {
        project: project.id.clone(),
        what: if total == 1 { one } else { several },
        offenders: offenders.iter().map(|e| e.id().to_owned()).collect(),
        total,
    }
    .into())
}

fn take(
    writer: &mut Writer<'_>,
    kind: &str,
    value: &str,
    id: &ProjectId,
    taken: impl FnOnce(ProjectId) -> Conflict,
) -> StoreResult<()> {
    match writer.claim(&claim((kind, value)), id.as_str())? {
        Ok(()) => Ok(()),
        Err(holder) => {
            let holder = holder
                .parse()
                .map_err(|e| skein_store::Error::Bug(format!("a claim names no project: {e}")))?;
            Err(taken(holder).into())
        }
    }
}

/// A prefix is never given to a second project, so session ids stay unique.
fn take_prefix(
    writer: &mut Writer<'_>,
    asked: Option<&Prefix>,
    name: &Name,
    id: &ProjectId,
) -> StoreResult<Prefix> {
    let wanted = asked
        .cloned()
        .unwrap_or_else(|| Prefix::derive(name.as_str()));
    let variants = if asked.is_some() { 1 } else { 10_000 };
    for prefix in (1..=variants).map(|n| wanted.variant(n)) {
        if writer
            .claim(&claim(("session-prefix", prefix.as_str())), id.as_str())?
            .is_ok()
        {
            return Ok(prefix);
        }
    }
    Err(Conflict::PrefixTaken {
        prefix: wanted.to_string(),
    }
    .into())
}

async fn canonical(path: String) -> Result<String, Error> {
    let folder = |why: String| Error::Folder {
        path: path.escape_debug().to_string(),
        why,
    };
    if path.is_empty() || path.contains('\0') {
        return Err(folder("not a path".into()));
    }
    if !path.starts_with('/') {
        return Err(folder("the path must be absolute".into()));
    }
    let looked = path.clone();
    let found = blocking(move || {
        let real = std::fs::canonicalize(&looked)?;
        let is_dir = std::fs::metadata(&real)?.is_dir();
        Ok::<_, std::io::Error>((real, is_dir))
    })
    .await
    .map_err(|_| Error::Stopped)?;
    match found {
        Ok((real, true)) => real
            .into_os_string()
            .into_string()
            .map_err(|_| folder("its real path is not UTF-8".into())),
        Ok((_, false)) => Err(folder("it is not a folder".into())),
        Err(e) => Err(folder(e.to_string())),
    }
}

/// The folder's own name, with `-` for characters that a name cannot have.
fn name_from(path: &str) -> Result<Name, Invalid> {
    let base = path.rsplit('/').next().unwrap_or_default();
    let cleaned: String = base
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
                c
            } else {
                '-'
            }
        })
        .take(64)
        .collect();
    let cleaned = cleaned.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    cleaned.parse().map_err(|_| {
        Invalid::new(
            "name",
            base,
            "this folder's name makes no project name; `skein project add --name NAME` gives one",
        )
    })
}
