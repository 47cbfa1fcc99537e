//! What every command gets: paths, identity, output, and a client of the daemon.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use skein_client::{Client, Endpoint, ErrorKind, Identity};
use skein_wire::Session;
use tokio::time::sleep;

use crate::cli::Global;
use crate::env::Environment;
use crate::error::UserError;
use crate::home::Home;
use crate::output::Output;
use crate::presence::{self, Presence};
use crate::start;
use crate::text::quoted;
use crate::view;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Time limit for calls about the daemon itself.
const SOON: Duration = Duration::from_secs(5);
/// How often, and how long apart, to retry a daemon that accepts connections and resets them.
const LOOKS: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);

/// The result of `Context::running`.
#[derive(Debug)]
pub(crate) enum Running<'a> {
    Here(&'a Client),
    Not(Presence),
}

impl<'a> Running<'a> {
    /// The client, or the reason why there is none.
    pub(crate) fn client(self) -> Result<&'a Client, UserError> {
        match self {
            Self::Here(client) => Ok(client),
            Self::Not(Presence::Absent) => Err(presence::not_running()),
            Self::Not(Presence::Passing(pid)) => Err(presence::passing(pid)),
            Self::Not(Presence::Serving(pid)) => Err(presence::socket_gone(pid)),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) home: Home,
    pub(crate) out: Output,
    pub(crate) identity: Identity,
    endpoint: Endpoint,
    client: OnceCell<Client>,
}

impl Context {
    pub(crate) fn new(
        environment: Environment,
        out: Output,
        global: &Global,
    ) -> Result<Self, UserError> {
        let home = Home::from_environment(&environment)?;
        let tenant = match &global.tenant {
            Some(tenant) => tenant.clone(),
            None => utf8("SKEIN_TENANT", environment.tenant.as_deref())?
                .unwrap_or("default")
                .to_owned(),
        };
        let actor = match utf8("SKEIN_ACTOR", environment.actor.as_deref())? {
            Some(actor) => actor.to_owned(),
            None => actor_of_user(environment.user.as_deref()),
        };
        let endpoint = endpoint(&environment, &home)?;
        Ok(Self {
            identity: Identity { tenant, actor },
            environment,
            home,
            out,
            endpoint,
            client: OnceCell::new(),
        })
    }

    /// A connected client; starts the daemon if it is absent and local.
    pub(crate) async fn client(&self) -> Result<&Client, UserError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = self.new_client();
        match answers(&client).await {
            Ok(()) => {}
            Err(error) => self.revive(&client, error).await?,
        }
        Ok(self.client.get_or_init(|| client))
    }

    /// Connects to the daemon again after a call failed with `error`; starts the daemon if it is absent and local.
    pub(crate) async fn reconnect(
        &self,
        client: &Client,
        error: skein_client::Error,
    ) -> Result<(), UserError> {
        if error.kind() != ErrorKind::Unavailable {
            return Err(error.into());
        }
        match answers(client).await {
            Ok(()) => Ok(()),
            Err(error) => self.revive(client, error).await,
        }
    }

    /// Whether this command may start an absent daemon.
    pub(crate) fn may_start_daemon(&self) -> bool {
        self.is_local() && matches!(self.inside(), Ok(None))
    }

    /// Starts the daemon if `error` means that it is absent and if it is local.
    pub(crate) async fn revive(
        &self,
        client: &Client,
        error: skein_client::Error,
    ) -> Result<(), UserError> {
        if !start::may_start(&error) || !self.is_local() {
            return Err(error.into());
        }
        if self.inside()?.is_some() {
            return Err(presence::not_started_by_agents());
        }
        start::start(self, client, &start::StartOptions::default()).await
    }

    /// Refuses to start the daemon of the home whose session this command runs in. That daemon would be in the agent's
    /// process tree: killing the session would end the daemon, and with it everything it started for other sessions.
    pub(crate) fn check_may_start_daemon(&self) -> Result<(), UserError> {
        let credential = utf8("SKEIN_CREDENTIAL", self.environment.credential.as_deref())?;
        let is_own = credential.is_some_and(|credential| is_of_home(credential, &self.home));
        match self.inside()? {
            Some(_) if is_own => Err(presence::not_started_by_agents()),
            _ => Ok(()),
        }
    }

    /// A client if the daemon runs, with short deadlines, for calls about the daemon itself.
    pub(crate) async fn running(&self) -> Result<Running<'_>, UserError> {
        if let Some(client) = self.client.get() {
            return Ok(Running::Here(client));
        }
        let client = self.new_client().with_deadlines(SOON, SOON);
        match client.connect().await {
            Ok(()) => {}
            Err(error) if start::may_start(&error) && self.is_local() => {
                return match self.presence(&client).await {
                    Some(presence) => Ok(Running::Not(presence)),
                    None => Ok(Running::Here(self.client.get_or_init(|| client))),
                };
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Running::Here(self.client.get_or_init(|| client)))
    }

    /// Why the daemon cannot be reached, or `None` if a second attempt connects. Called when `client` could not
    /// connect. A daemon opens its socket once, so one that serves before and after another failed attempt has lost its
    /// socket.
    pub(crate) async fn presence(&self, client: &Client) -> Option<Presence> {
        let before = Presence::of(&self.home);
        if !matches!(before, Presence::Serving(_)) {
            return Some(before);
        }
        if client.connect().await.is_ok() {
            return None;
        }
        let after = Presence::of(&self.home);
        Some(match after {
            Presence::Serving(pid) if after != before => Presence::Passing(pid),
            other => other,
        })
    }

    /// Adds which process does not answer.
    pub(crate) fn explain(&self, error: UserError) -> UserError {
        if !error.is_no_answer() || !self.is_local() {
            return error;
        }
        presence::silent(Presence::of(&self.home).pid())
    }

    pub(crate) fn new_client(&self) -> Client {
        Client::new(self.endpoint.clone(), self.identity.clone())
    }

    /// Whether the daemon is that of this home, which commands may start and stop.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.endpoint, Endpoint::Unix { .. })
    }

    /// The given project, or that of the current folder.
    pub(crate) async fn project(&self, given: Option<String>) -> Result<String, UserError> {
        let hint = "`--project NAME` chooses another; `skein project ls` lists them";
        self.project_or(given, hint).await
    }

    /// As [`Context::project`], for commands that take a project in another way; `hint` says how.
    pub(crate) async fn project_or(
        &self,
        given: Option<String>,
        hint: &str,
    ) -> Result<String, UserError> {
        match self.given_project(given).await? {
            Some(project) => Ok(project),
            None => self.project_at(&current_folder()?, hint).await,
        }
    }

    /// A project reference for the daemon. People may also give a folder in the project; an id, a prefix of one, or a
    /// name wins over a folder of the same name.
    pub(crate) async fn given_project(
        &self,
        given: Option<String>,
    ) -> Result<Option<String>, UserError> {
        let Some(given) = given else {
            return Ok(None);
        };
        // Neither ids nor names contain a slash or consist of dots.
        let must_be_path = given.contains('/') || given == "." || given == "..";
        if !must_be_path {
            if !Path::new(&given).is_dir() {
                return Ok(Some(given));
            }
            match self.client().await?.get_project(&given).await {
                Ok(project) => return Ok(Some(project.id)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        let folder = crate::command::project::folder(Some(Path::new(&given)))?;
        let hint = "`skein project ls` lists the projects";
        self.project_at(&folder, hint).await.map(Some)
    }

    /// The project that contains `folder`.
    async fn project_at(&self, folder: &str, hint: &str) -> Result<String, UserError> {
        let client = self.client().await?;
        if let Some(project) = client.find_project_at(folder).await? {
            return Ok(project.id);
        }
        let Some(repository) = repository_around(folder) else {
            let message = format!("the folder `{folder}` is not in a project");
            return Err(UserError::not_found(message)
                .hint(format!("`skein project add {}` adds it", quoted(folder)))
                .hint(hint));
        };
        let message = format!("the repository `{repository}` is not a project yet");
        let add = format!("`skein project add {}` adds it", quoted(&repository));
        let error = UserError::not_found(message).hint(add);
        let around = Path::new(&repository).parent().and_then(Path::to_str);
        let around = match around {
            Some(around) => client.find_project_at(around).await?,
            None => None,
        };
        Err(match around {
            Some(project) => error.hint(format!(
                "`--project {}` uses the project around it",
                project.name
            )),
            None => error.hint(hint),
        })
    }

    /// The PATH in which the daemon searches programs for the caller. Over TCP the daemon uses its own.
    pub(crate) fn search_path_for_daemon(&self) -> Option<String> {
        self.search_path().filter(|_| self.is_local())
    }

    /// The caller's PATH.
    pub(crate) fn search_path(&self) -> Option<String> {
        let path = self.environment.path.as_deref()?;
        path.to_str().map(str::to_owned)
    }

    /// The session in which this command runs, if any.
    pub(crate) fn inside(&self) -> Result<Option<&str>, UserError> {
        utf8("SKEIN_SESSION", self.environment.session.as_deref())
    }

    /// Prints one session, in a line.
    pub(crate) fn show_session(&self, session: &Session) -> Result<(), UserError> {
        self.out
            .show(session, |paint| view::session_line(session, paint))
    }

    /// Warns once if the daemon's version, from its answer headers, differs from this one.
    pub(crate) fn compare_versions(&self) {
        if let Some(version) = self.client.get().and_then(Client::daemon_version)
            && version != VERSION
        {
            self.out.warn(
                &format!("the daemon runs version {version}, this is version {VERSION}"),
                "`skein daemon stop` stops it; the next command starts the new one",
            );
        }
    }
}

fn endpoint(environment: &Environment, home: &Home) -> Result<Endpoint, UserError> {
    match utf8("SKEIN_URL", environment.url.as_deref())? {
        None => Ok(Endpoint::Unix {
            socket: home.socket(),
            credential: utf8("SKEIN_CREDENTIAL", environment.credential.as_deref())?
                .filter(|credential| is_of_home(credential, home))
                .map(str::to_owned),
        }),
        Some(url) => {
            let token = utf8("SKEIN_TOKEN", environment.token.as_deref())?;
            Ok(Endpoint::from_url(url, token.map(str::to_owned))?)
        }
    }
}

/// Whether a run's credential is for the daemon of this home. An agent may use another home, such as that of a test;
/// there it is an ordinary user.
fn is_of_home(credential: &str, home: &Home) -> bool {
    credential.split('.').nth(1) == Some(home.mark().as_str())
}

pub(crate) fn utf8<'a>(name: &str, value: Option<&'a OsStr>) -> Result<Option<&'a str>, UserError> {
    match value {
        None => Ok(None),
        Some(value) => value
            .to_str()
            .map(Some)
            .ok_or_else(|| UserError::misuse(format!("{name} is not UTF-8"))),
    }
}

/// Checks that a daemon answers. A daemon that was just killed still accepts connections for a moment, and resets them.
async fn answers(client: &Client) -> Result<(), skein_client::Error> {
    let mut looks = 0;
    loop {
        client.connect().await?;
        match client.healthz().await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Unavailable && looks < LOOKS => {
                looks += 1;
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn current_folder() -> Result<String, UserError> {
    let folder = std::env::current_dir()
        .map_err(|error| UserError::misuse("there is no current folder").caused_by(&error))?;
    folder.to_str().map(str::to_owned).ok_or_else(|| {
        UserError::misuse(format!(
            "the path of the current folder is not UTF-8: `{}`",
            folder.display()
        ))
    })
}

/// The root of the repository that contains `folder`.
fn repository_around(folder: &str) -> Option<String> {
    let mut folders = Path::new(folder).ancestors();
    let root = folders.find(|folder| folder.join(".git").symlink_metadata().is_ok())?;
    root.to_str().map(str::to_owned)
}

/// `user:$USER`, without characters that an actor's name cannot contain; `user:me` if none is left.
fn actor_of_user(user: Option<&OsStr>) -> String {
    let user = user.map(OsStr::to_string_lossy).unwrap_or_default();
    let plain: String = user
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+') => c,
            _ => '-',
        })
        .collect();
    let name = plain
        .trim_start_matches(|c: char| !c.is_ascii_alphanumeric())
        .trim_end_matches('-');
    let name = &name[..name.len().min(64)];
    if name.is_empty() {
        "user:me".to_owned()
    } else {
        format!("user:{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_users_become_valid_actors() {
        for (user, actor) in [
            (Some("ann"), "user:ann"),
            (Some("Ann Lee"), "user:Ann-Lee"),
            (Some("_www"), "user:www"),
            (Some("DOMAIN\\bob"), "user:DOMAIN-bob"),
            (Some("日本"), "user:me"),
            (None, "user:me"),
        ] {
            let made = actor_of_user(user.map(OsStr::new));
            assert_eq!(made, actor);
            assert!(made.parse::<skein_domain::Actor>().is_ok());
        }
        let long = "x".repeat(200);
        assert!(
            actor_of_user(Some(OsStr::new(&long)))
                .parse::<skein_domain::Actor>()
                .is_ok()
        );
    }
}
