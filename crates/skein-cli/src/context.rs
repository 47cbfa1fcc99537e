//! What every command gets: where things are, who asks, how to answer, and a daemon to call.

use std::cell::OnceCell;
use std::ffi::OsStr;

use skein_client::{Client, Endpoint, Identity, Key, Kind};

use crate::cli::Global;
use crate::env::Environment;
use crate::error::UserError;
use crate::home::Home;
use crate::output::Output;
use crate::start;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

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
        match client.connect().await {
            Ok(()) => {}
            Err(error) if start::may_start(&error) && self.is_local() => {
                start::start(self, &client, &start::Wanted::default()).await?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(self.client.get_or_init(|| client))
    }

    /// A client if the daemon runs already, and why not otherwise.
    pub(crate) async fn running(&self) -> Result<&Client, skein_client::Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = self.new_client();
        client.connect().await?;
        Ok(self.client.get_or_init(|| client))
    }

    pub(crate) fn new_client(&self) -> Client {
        Client::new(self.endpoint.clone(), self.identity.clone())
    }

    /// Whether the daemon is the one of this home, which we may start and stop.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.endpoint, Endpoint::Unix(_))
    }

    /// The project named, else the one whose folder we are in.
    pub(crate) async fn project(&self, named: Option<String>) -> Result<String, UserError> {
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
            .hint("`--project NAME` names another; `skein project ls` lists them")),
        }
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
        None => Ok(Endpoint::Unix(home.socket())),
        Some(url) => {
            let token = utf8("SKEIN_TOKEN", environment.token.as_deref())?;
            Ok(Endpoint::from_url(url, token.map(str::to_owned))?)
        }
    }
}

fn utf8<'a>(name: &str, value: Option<&'a OsStr>) -> Result<Option<&'a str>, UserError> {
    match value {
        None => Ok(None),
        Some(value) => value
            .to_str()
            .map(Some)
            .ok_or_else(|| UserError::misuse(format!("{name} is not UTF-8"))),
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
