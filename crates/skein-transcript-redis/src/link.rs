//! The connection to one server or a cluster, re-established when it breaks.

use std::fmt;

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{Client, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, Value, cmd};
use skein_transcript::{Error, Result};

use crate::failure::{failure, is_no_script};
use crate::options::{Address, Durability, RedisOptions, bad_url};
use crate::scripts::Text;

/// Cheap to clone; clones share the connection.
#[derive(Clone)]
pub(crate) struct Link {
    way: Way,
    pub(crate) options: RedisOptions,
}

#[derive(Clone)]
enum Way {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Whether a script writes, and so must be on disk before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Read,
    Write,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

impl Link {
    /// Attempts to reconnect before a call fails; the next call tries again.
    const RETRIES: u32 = 2;

    pub(crate) async fn open(options: RedisOptions) -> Result<Self> {
        let timeout = options.timeout;
        let failed = |error: &RedisError| failure(&options, "be connected to", error);
        let way = match options.address()? {
            Address::One(url) => {
                let client = Client::open(url).map_err(|_| bad_url())?;
                let config = ConnectionManagerConfig::new()
                    .set_number_of_retries(Self::RETRIES as usize)
                    .set_connection_timeout(Some(timeout))
                    .set_response_timeout(Some(timeout));
                let manager = ConnectionManager::new_with_config(client, config).await;
                Way::One(manager.map_err(|e| failed(&e))?)
            }
            Address::Cluster(nodes) => {
                let builder = ClusterClientBuilder::new(nodes)
                    .retries(Self::RETRIES)
                    .connection_timeout(timeout)
                    .response_timeout(timeout);
                let client = builder.build().map_err(|_| bad_url())?;
                Way::Cluster(
                    client
                        .get_async_connection()
                        .await
                        .map_err(|e| failed(&e))?,
                )
            }
        };
        Ok(Self { way, options })
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.way, Way::Cluster(_))
    }

    fn failed(&self, what: &str, error: &RedisError) -> Error {
        failure(&self.options, what, error)
    }

    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let value = match self.way.clone() {
            Way::One(mut one) => one.req_packed_command(command).await,
            Way::Cluster(mut cluster) => cluster.req_packed_command(command).await,
        };
        value.and_then(Value::extract_error)
    }

    /// As `send`, for reads: retries once if the connection was dropped, since the server may be back for long. A
    /// write is not retried, because its outcome is unknown.
    async fn send_read(&self, command: &Cmd) -> RedisResult<Value> {
        match self.send(command).await {
            Err(error) if error.is_connection_dropped() => self.send(command).await,
            answer => answer,
        }
    }

    /// A read that names a key, or that any server can answer.
    pub(crate) async fn ask<T: FromRedisValue>(&self, what: &str, command: &Cmd) -> Result<T> {
        let answer = self.send_read(command).await;
        let value = answer.map_err(|e| self.failed(what, &e))?;
        T::from_redis_value(value).map_err(|e| self.failed(what, &e.into()))
    }

    /// A read from one server of a cluster, or from the only server.
    pub(crate) async fn ask_at<T: FromRedisValue>(
        &self,
        node: Option<&Node>,
        what: &str,
        command: Cmd,
    ) -> Result<T> {
        let (Way::Cluster(cluster), Some(node)) = (&self.way, node) else {
            return self.ask(what, &command).await;
        };
        let way = SingleNodeRoutingInfo::ByAddress {
            host: node.host.clone(),
            port: node.port,
        };
        let answer = cluster
            .clone()
            .route_command(command, RoutingInfo::SingleNode(way))
            .await;
        let value = answer
            .and_then(Value::extract_error)
            .map_err(|e| self.failed(what, &e))?;
        T::from_redis_value(value).map_err(|e| self.failed(what, &e.into()))
    }

    /// The servers with slots, in a stable order; only `None` without a cluster.
    pub(crate) async fn nodes(&self) -> Result<Vec<Option<Node>>> {
        if !self.is_cluster() {
            return Ok(vec![None]);
        }
        let mut command = cmd("CLUSTER");
        command.arg("SLOTS");
        let what = "list the servers of the cluster";
        let slots: Vec<Vec<Value>> = self.ask(what, &command).await?;
        let mut nodes = vec![];
        for slot in slots {
            // From, to, and the server with its host, port, id and more.
            let server = slot.into_iter().nth(2).unwrap_or(Value::Nil);
            let server = Vec::<Value>::from_redis_value(server);
            let mut server = server
                .map_err(|e| self.failed(what, &e.into()))?
                .into_iter();
            let (host, port) = (
                server.next().unwrap_or(Value::Nil),
                server.next().unwrap_or(Value::Nil),
            );
            nodes.push(Some(Node {
                host: String::from_redis_value(host).map_err(|e| self.failed(what, &e.into()))?,
                port: u16::from_redis_value(port).map_err(|e| self.failed(what, &e.into()))?,
            }));
        }
        nodes.sort();
        nodes.dedup();
        Ok(nodes)
    }

    /// Runs a script by its hash, or by its source if the server does not know it yet.
    pub(crate) async fn run(
        &self,
        script: &Text,
        work: Work,
        keys: &[&str],
        arguments: &[Vec<u8>],
    ) -> Result<Value> {
        let command = |name: &str, text: &str| {
            let mut command = cmd(name);
            command.arg(text).arg(keys.len()).arg(keys).arg(arguments);
            command
        };
        let mut answer = self
            .send_durably(work, command("EVALSHA", &script.hash))
            .await;
        if answer.as_ref().is_err_and(is_no_script) {
            answer = self
                .send_durably(work, command("EVAL", script.source))
                .await;
        }
        answer.map_err(|error| match error.code() {
            Some("TORN") => {
                Error::corrupt("a transcript in Redis", error.detail().unwrap_or_default())
            }
            _ => self.failed(script.what, &error),
        })
    }

    /// Sends a command and waits until its writes are on disk, as configured.
    async fn send_durably(&self, work: Work, command: Cmd) -> RedisResult<Value> {
        let wait = work == Work::Write && self.options.durability == Durability::WaitAof;
        let (Way::One(one), true) = (&self.way, wait) else {
            return match work {
                Work::Read => self.send_read(&command).await,
                Work::Write => self.send(&command).await,
            };
        };
        // Both go in one pipeline on one connection: WAITAOF waits for the writes of its own connection, and on a new
        // one, after a restart, it would not wait at all.
        let mut both = Pipeline::with_capacity(2);
        both.add_command(command);
        let millis = u64::try_from(self.options.timeout.as_millis() / 2)
            .unwrap_or(u64::MAX)
            .max(1);
        both.cmd("WAITAOF").arg(1).arg(0).arg(millis);
        let mut answers = one
            .clone()
            .req_packed_commands(&both, 0, 2)
            .await?
            .into_iter();
        let value = answers.next().unwrap_or(Value::Nil).extract_error()?;
        let synced = answers.next().unwrap_or(Value::Nil).extract_error()?;
        let (here, _): (u64, u64) = redis::from_redis_value(synced)?;
        if here < 1 {
            let late = std::io::Error::new(std::io::ErrorKind::TimedOut, "WAITAOF timed out");
            return Err(late.into());
        }
        Ok(value)
    }
}
