//! Where the daemon is and who calls it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::error::Error;

#[derive(Clone, PartialEq, Eq)]
pub enum Endpoint {
    Unix {
        socket: PathBuf,
        /// The credential of the run that calls; without one the caller is the machine's user.
        credential: Option<String>,
    },
    Tcp {
        addr: SocketAddr,
        token: Option<String>,
    },
}

/// Sent with every call over the Unix socket; a token or credential overrides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub tenant: String,
    pub actor: String,
}

impl Endpoint {
    /// Parses `http://ADDRESS:PORT`. Refuses host names other than `localhost`: this client has no DNS and no TLS.
    pub fn from_url(url: &str, token: Option<String>) -> Result<Self, Error> {
        let refuse = |reason| Error::Url {
            url: url.to_owned(),
            reason,
        };
        let rest = url
            .strip_prefix("http://")
            .ok_or_else(|| refuse("it must start with http://"))?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if let Ok(addr) = authority.parse::<SocketAddr>() {
            return Ok(Self::Tcp { addr, token });
        }
        let (host, port) = authority
            .rsplit_once(':')
            .ok_or_else(|| refuse("the port is missing"))?;
        let port: u16 = port
            .parse()
            .map_err(|_| refuse("the port is not a number below 65536"))?;
        let ip = match host {
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            _ => return Err(refuse("the host must be an IP address or `localhost`")),
        };
        Ok(Self::Tcp {
            addr: SocketAddr::new(ip, port),
            token,
        })
    }

    /// The socket, called by the daemon's own user.
    pub fn unix(socket: impl Into<PathBuf>) -> Self {
        Self::Unix {
            socket: socket.into(),
            credential: None,
        }
    }

    pub(crate) fn bearer(&self) -> Option<&str> {
        match self {
            Self::Unix { credential, .. } => credential.as_deref(),
            Self::Tcp { token, .. } => token.as_deref(),
        }
    }

    pub(crate) fn host(&self) -> String {
        match self {
            Self::Unix { .. } => "localhost".to_owned(),
            Self::Tcp { addr, .. } => addr.to_string(),
        }
    }
}

/// Without the secret.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.to_string()).finish()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { socket, .. } => write!(f, "{}", socket.display()),
            Self::Tcp { addr, .. } => write!(f, "http://{addr}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_an_address_and_a_port() {
        let shown = |url: &str| Endpoint::from_url(url, None).map(|e| e.to_string());
        assert_eq!(
            shown("http://127.0.0.1:80/").unwrap(),
            "http://127.0.0.1:80"
        );
        assert_eq!(shown("http://[::1]:7000").unwrap(), "http://[::1]:7000");
        assert_eq!(shown("http://localhost:9").unwrap(), "http://127.0.0.1:9");
        for bad in [
            "",
            "127.0.0.1:80",
            "https://127.0.0.1:80",
            "http://example.org:80",
            "http://127.0.0.1",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:80/path",
        ] {
            assert!(shown(bad).is_err(), "{bad:?}");
        }
    }
}
