//! The calls about agents: messages, terminals, files and what is cleaned up after them.

use hyper::Method;
use skein_wire::{
    Agent, Diff, Gc, GcReport, Hook, HookTaken, Interrupt, List, Receipt, Screen, Send, Session,
    Terminal, Why,
};

use crate::call::Client;
use crate::error::Error;
use crate::key::Key;
use crate::query::{Page, Target};

impl Client {
    pub async fn send(&self, session: &str, body: &Send, key: &Key) -> Result<Receipt, Error> {
        self.act(session, "send", body, key).await
    }

    pub async fn interrupt(&self, session: &str, key: &Key) -> Result<Session, Error> {
        self.act(session, "interrupt", &Interrupt {}, key).await
    }

    /// Has no key: what a hook says twice is true twice.
    pub async fn hook(&self, session: &str, body: &Hook) -> Result<HookTaken, Error> {
        let target = Target::new(["sessions", session, "hook"]);
        self.call(Method::POST, &target, Some(body), None).await
    }

    pub async fn get_receipt(&self, receipt: &str) -> Result<Receipt, Error> {
        self.get(&Target::new(["receipts", receipt])).await
    }

    pub async fn list_receipts(&self, session: &str, page: &Page) -> Result<List<Receipt>, Error> {
        self.get(&Target::new(["sessions", session, "receipts"]).page(page))
            .await
    }

    pub async fn screen(&self, session: &str) -> Result<Screen, Error> {
        self.get(&Target::new(["sessions", session, "screen"]))
            .await
    }

    /// Paths on the daemon's machine; on the Unix socket only.
    pub async fn terminal(&self, session: &str) -> Result<Terminal, Error> {
        self.get(&Target::new(["sessions", session, "terminal"]))
            .await
    }

    pub async fn diff(&self, session: &str, stat: bool) -> Result<Diff, Error> {
        let target = Target::new(["sessions", session, "diff"]);
        self.get(&target.with("stat", stat.then_some("true"))).await
    }

    pub async fn why(&self, session: &str) -> Result<Why, Error> {
        self.get(&Target::new(["sessions", session, "why"])).await
    }

    pub async fn gc(&self, body: &Gc, key: &Key) -> Result<GcReport, Error> {
        self.post(&Target::new(["gc"]), body, key).await
    }

    /// The agents a project can use, looked for in `path`.
    pub async fn list_agents(
        &self,
        project: Option<&str>,
        path: Option<&str>,
    ) -> Result<List<Agent>, Error> {
        let target = Target::new(["agents"])
            .with("project", project)
            .with("path", path);
        self.get(&target).await
    }
}
