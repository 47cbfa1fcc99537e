//! What the rules of an agent make of its screen, for callers who ask why.

use std::time::Duration;

pub use skein_agent::agent::Draft;
use skein_agent::agent::Reading;
pub use skein_agent::rules::{RuleTrial, UnmetCondition};
use skein_domain::{Activity, Session};
use skein_runtime::runtime::Screen;

use super::FleetRequests;
use super::commands::run_blocking;
use super::supervisor::picture;
use crate::error::Error;

/// How long a status waits for the screen that explains it.
const PATIENCE: Duration = Duration::from_secs(2);

/// A screen, and how the agent's rules read it.
#[derive(Clone, Debug)]
pub struct ScreenExplained {
    pub screen: Screen,
    /// What the screen says the agent does, and the rule that says so.
    pub reading: Option<(Activity, String)>,
    pub draft: Draft,
    /// Every rule, in the order in which they are tried.
    pub rules: Vec<RuleTrial>,
}

impl FleetRequests {
    /// Reads the screen as the supervisor of the run does, and tries every rule on it.
    pub async fn explain_screen(&self, reference: String) -> Result<ScreenExplained, Error> {
        let fleet = self.fleet.clone();
        let (session, project) = self.ledger.sessions().with_project(reference).await?;
        let screen = self.screen(session.id.to_string()).await?;
        run_blocking(move || {
            let agent = fleet.programs.agent(&session, &project)?;
            let picture = picture(&screen);
            let readings = agent.read_screen(picture).into_iter();
            let mut reading = readings.filter_map(|reading| match reading {
                Reading::Activity { activity, rule, .. } => Some((activity, rule)),
                _ => None,
            });
            Ok(ScreenExplained {
                reading: reading.next_back(),
                draft: agent.draft(picture),
                rules: agent.known().rules.explain(picture),
                screen,
            })
        })
        .await?
    }

    /// The same for a session whose status may depend on its screen; none where there is no screen to explain, or
    /// where it does not come soon: the status is shown without it.
    pub async fn explain_status(&self, session: &Session) -> Option<ScreenExplained> {
        let by_other = |seen: skein_domain::Observations| {
            let source = seen.activity.map(|activity| activity.what.source);
            source.is_some_and(|source| source.as_str() != "screen")
        };
        if !session.phase.is_live()
            || session.gear.is_none()
            || by_other(self.observations(session))
        {
            return None;
        }
        let explained = self.explain_screen(session.id.to_string());
        tokio::time::timeout(PATIENCE, explained).await.ok()?.ok()
    }
}
