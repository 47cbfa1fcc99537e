//! What every command gets: where things are, who asks, how to answer, and a daemon to call.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::time::Duration;

use skein_client::{Client, Endpoint, Identity, Key, Kind};
use tokio::time::sleep;

use crate::cli::Global;
use crate::env::Environment;
use crate::error::UserError;
use crate::home::Home;
use crate::output::Output;
use crate::presence::{self, Presence};
use crate::start;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long a question about the daemon itself may take.
const SOON: Duration = Duration::from_secs(5);
/// How often, and after which pauses, a daemon that takes connections and breaks them is asked again.
const LOOKS: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);

/// What `Context::running` finds.
#[derive(Debug)]
pub(crate) enum Running<'a> {
    Here(&'a Client),
    Not(Presence),
}

impl<'a> Running<'a> {
    /// The client, or why there is none.
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

    /// A client with a living connection; starts the daemon if it is ours to start.
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

    /// Starts the daemon that `client` could not reach, if that is why, and if it is ours to start.
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
        start::start(self, client, &start::Wanted::default()).await
    }

    /// Refuses to start the daemon of the home whose session this command runs in. That daemon would be in the
    /// agent's process tree: killing the session would end it, and with it what it started for other sessions.
    pub(crate) fn check_may_start_daemon(&self) -> Result<(), UserError> {
        let credential = utf8("SKEIN_CREDENTIAL", self.environment.credential.as_deref())?;
        let is_own = credential.is_some_and(|credential| is_of_home(credential, &self.home));
        match self.inside()? {
            Some(_) if is_own => Err(presence::not_started_by_agents()),
            _ => Ok(()),
        }
    }

    /// A client if the daemon runs already; one that answers soon, for questions about the daemon itself.
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

    /// What is there instead of a daemon that can be reached; none if it can be reached after all. Called when
    /// `client` could not connect. A daemon serves once in its life, so one that serves before and after
    /// another vain attempt has lost its socket.
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

    /// Says who it is that does not answer.
    pub(crate) fn explain(&self, error: UserError) -> UserError {
        if !error.is_silence() || !self.is_local() {
            return error;
        }
        presence::silent(Presence::of(&self.home).pid())
    }

    pub(crate) fn new_client(&self) -> Client {
        Client::new(self.endpoint.clone(), self.identity.clone())
    }

    /// Whether the daemon is the one of this home, which we may start and stop.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.endpoint, Endpoint::Unix { .. })
    }

    /// The project named, else the one whose folder we are in.
    pub(crate) async fn project(&self, named: Option<String>) -> Result<String, UserError> {
        let hint = "`--project NAME` names another; `skein project ls` lists them";
        self.project_or(named, hint).await
    }

    /// As [`Context::project`], for commands that name a project in another way.
    pub(crate) async fn project_or(
        &self,
        named: Option<String>,
        hint: &str,
    ) -> Result<String, UserError> {
        if let Some(project) = named {
            return Ok(project);
        }
        let folder = current_folder()?;
        match self.client().await?.find_project_at(&folder).await? {
            Some(project) => Ok(project.id),
            None => Err(UserError::new(
                Kind::NotFound,
                format!("no project encloses the current folder `{folder}`"),
            )
            .hint("`skein project add` makes one of it")
            .hint(hint)),
        }
    }

    /// Where the daemon is to look for programs on behalf of the caller. A daemon that is reached over TCP looks
    /// where it does itself.
    pub(crate) fn search_path_for_daemon(&self) -> Option<String> {
        self.search_path().filter(|_| self.is_local())
    }

    /// Where programs are looked for on behalf of the caller.
    pub(crate) fn search_path(&self) -> Option<String> {
        let path = self.environment.path.as_deref()?;
        path.to_str().map(str::to_owned)
    }

    /// The session this command was started in, if it was.
    pub(crate) fn inside(&self) -> Result<Option<&str>, UserError> {
        utf8("SKEIN_SESSION", self.environment.session.as_deref())
    }

    /// The caller's key, or a fresh one.
    pub(crate) fn key(&self, given: Option<&str>) -> Key {
        given.map_or_else(Key::random, Key::new)
    }

    /// One warning when the daemon is not of our version; told by the headers of its answers.
    pub(crate) fn compare_versions(&self) {
        if let Some(version) = self.client.get().and_then(Client::daemon_version)
            && version != VERSION
        {
            self.out.warn(
                &format!("the daemon runs version {version}, this is version {VERSION}"),
                "`skein daemon stop` ends it; the next command starts the new one",
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

/// Whether a run's credential is for the daemon of this home. An agent may well use another home, such as that
/// of a test; there it is an ordinary user.
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

/// Whether a daemon answers. One that was just killed still takes connections for a moment, and resets them.
async fn answers(client: &Client) -> Result<(), skein_client::Error> {
    let mut looks = 0;
    loop {
        client.connect().await?;
        match client.healthz().await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == Kind::Unavailable && looks < LOOKS => {
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

/// `user:$USER`, with what an actor's name cannot hold left out; `user:me` if nothing is left.
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
