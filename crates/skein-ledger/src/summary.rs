//! Summaries, which sessions leave for others.

use skein_domain::{
    Conflict, Deliverable, NotFound, Phase, Role, Session, SessionId, Summary, SummaryId,
    SummaryOutcome, fact::SessionChange, summary,
};
use skein_store::Reader;

use crate::caller::{Answer, RequestOutcome};
use crate::error::{Error, StoreResult};
use crate::requests::SessionRequests;

#[derive(Clone, Debug)]
pub struct NewSummary {
    pub outcome: SummaryOutcome,
    pub text: String,
    pub key_decisions: Vec<String>,
    pub deliverables: Vec<Deliverable>,
    pub based_on: Option<String>,
}

impl SessionRequests<'_> {
    /// Records a session's summary. There is one per session, and it never changes.
    pub async fn set_summary(self, reference: String, new: NewSummary) -> Result<Answer, Error> {
        summary::check(&new.text, &new.key_decisions, &new.deliverables)?;
        let id = SummaryId::from_random(self.0.ledger.ids.bits());
        let must_own = self.0.must_own();
        self.0
            .change("record a summary", Role::Operate, move |writer| {
                let session: Session = writer.reader().resolve(&reference)?;
                session.check_owner(must_own.as_ref())?;
                if let Some(summary) = &session.summary {
                    return Err(Conflict::SummaryExists {
                        session: session.id,
                        summary: summary.to_string(),
                    }
                    .into());
                }
                if let Phase::Archived { .. } = session.phase {
                    return Err(Conflict::WrongPhase {
                        phase: session.phase.name(),
                        session: session.id,
                        wanted: "its summary can no longer be recorded",
                    }
                    .into());
                }
                let based_on =
                    check_based_on(&writer.reader(), &session.id, new.based_on.as_deref())?;
                check_deliverables(&writer.reader(), &new.deliverables)?;
                let summary = Summary {
                    id: id.clone(),
                    session: session.id.clone(),
                    outcome: new.outcome,
                    text: new.text.clone(),
                    key_decisions: new.key_decisions.clone(),
                    deliverables: new.deliverables.clone(),
                    based_on: based_on.clone(),
                    at: writer.now(),
                };
                writer.insert(&summary)?;
                let after = Session {
                    summary: Some(id.clone()),
                    ..session.next(writer.now())
                };
                writer.update(&after)?;
                writer.append_event(
                    &SessionChange::Summarized {
                        summary: id.clone(),
                        based_on,
                    }
                    .of(&after),
                )?;
                Ok(RequestOutcome::Summary(summary))
            })
            .await
    }

    pub async fn summary(self, reference: String) -> Result<Summary, Error> {
        self.0
            .read(move |reader| {
                let session: Session = reader.resolve(&reference)?;
                summary_of(reader, &session)
            })
            .await
    }
}

fn summary_of(reader: &Reader<'_>, session: &Session) -> StoreResult<Summary> {
    match &session.summary {
        Some(id) => reader.get(id.as_str()),
        None => Err(NotFound::new("summary", session.id.as_str()).into()),
    }
}

/// The session named must have a summary, and the chain it belongs to must stay short and without cycle.
fn check_based_on(
    reader: &Reader<'_>,
    session: &SessionId,
    based_on: Option<&str>,
) -> StoreResult<Option<SessionId>> {
    let Some(reference) = based_on else {
        return Ok(None);
    };
    let base: Session = reader.resolve(reference)?;
    summary::check_chain(session, &base.id, |id| {
        let session: Session = reader.get(id.as_str())?;
        Ok::<_, skein_store::Error>(summary_of(reader, &session)?.based_on)
    })?;
    Ok(Some(base.id))
}

fn check_deliverables(reader: &Reader<'_>, deliverables: &[Deliverable]) -> StoreResult<()> {
    for deliverable in deliverables {
        match deliverable {
            Deliverable::Message { session, .. } => {
                reader.get::<Session>(session.as_str())?;
            }
            Deliverable::Summary { session } => {
                summary_of(reader, &reader.get(session.as_str())?)?;
            }
            Deliverable::File { .. } | Deliverable::Blob { .. } => {}
        }
    }
    Ok(())
}
