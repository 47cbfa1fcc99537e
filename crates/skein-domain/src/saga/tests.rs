//! The machine by itself: every kind, every step, every result, in every order.

use proptest::prelude::*;

use super::*;
use crate::budget::Allowance;
use crate::fact::{SagaChange, SessionChange};
use crate::gear::Gear;
use crate::phase::{Phase, Step};
use crate::run::{LaunchSettings, RuntimeKind};
use crate::session::{NewSession, Session};
use crate::workspace::{WorkspaceKind, WorkspaceOrigin, WorkspaceState};

const NOW: Timestamp = Timestamp::from_micros(1_000);

fn request(kind: SagaKind) -> SagaRequest {
    let actor = |name: &str| name.parse::<Actor>().unwrap();
    match kind {
        SagaKind::Spawn => SagaRequest::Spawn {
            receipt: Some(ReceiptId::from_random([1; 10])),
            memory_mb: 512,
        },
        SagaKind::Restore => SagaRequest::Restore {
            receipt: ReceiptId::from_random([1; 10]),
            outcome: Outcome::Lost,
            reason: Some(Reason::from_text("gone")),
        },
        SagaKind::Kill => SagaRequest::Kill {
            discard: false,
            reason: Some(Reason::from_text("not needed")),
        },
        SagaKind::Gc => SagaRequest::Gc,
        SagaKind::Handoff => SagaRequest::Handoff {
            to: actor("agent:b"),
        },
        SagaKind::Broadcast => SagaRequest::Broadcast {
            to: vec![actor("agent:b"), actor("agent:c")],
        },
        SagaKind::Fork => SagaRequest::Fork(ForkRequest {
            target: "api-9".parse().unwrap(),
            after: None,
            thread: ThreadId::from_random([2; 10]),
            owner: actor("user:ann"),
            task: "go on".parse().unwrap(),
        }),
    }
}

fn saga(kind: SagaKind) -> Saga {
    Saga {
        id: SagaId::from_random([7; 10]),
        session: "api-1".parse().unwrap(),
        request: request(kind),
        state: match kind.queues() {
            true => SagaState::Queued,
            false => SagaState::Doing {
                step: kind.steps()[0],
            },
        },
        prompt: None,
        shared: None,
        actor: "user:ann".parse().unwrap(),
        reply: None,
        version: 1,
        at: NOW,
    }
}

fn workspace(state: WorkspaceState) -> Workspace {
    Workspace {
        kind: WorkspaceKind::Worktree,
        path: "/managed/api-1".parse().unwrap(),
        repo: Some("/repo".parse().unwrap()),
        branch: Some("skein/api-1".parse().unwrap()),
        branch_made: true,
        base: None,
        base_commit: None,
        origin: WorkspaceOrigin::Made,
        state,
        backups: vec![],
    }
}

fn backup(n: u64) -> Backup {
    Backup {
        n,
        commit: "0b".repeat(20).parse().unwrap(),
        at: NOW,
    }
}

/// The session as the request that began the saga left it.
fn session(saga: &Saga) -> Session {
    let new = NewSession {
        id: saga.session.clone(),
        project: crate::id::ProjectId::from_random([3; 10]),
        thread: ThreadId::from_random([2; 10]),
        parent: None,
        depth: 0,
        owner: "user:ann".parse().unwrap(),
        agent: "scripted".parse().unwrap(),
        task: "fix it".parse().unwrap(),
        allowance: Allowance::UNLIMITED,
        broadcast: None,
        at: NOW,
    };
    if saga.kind().answers_when_over() {
        let session = Session::ready(new);
        return match saga.kind() {
            SagaKind::Fork => session,
            _ => session
                .quiet_step(Step::Lock(saga.id.clone()), NOW)
                .unwrap(),
        };
    }
    let gear = Gear {
        runtime: RuntimeKind::Pty,
        launch: LaunchSettings::default(),
        workspace: workspace(WorkspaceState::Planned),
        handle: None,
        native: None,
        saga: Some((saga.id.clone(), saga.kind())),
        input: 0,
        spent: None,
        read: vec![],
        limit: None,
        note: None,
    };
    let session = Session::spawning(new, gear);
    match saga.kind() {
        SagaKind::Kill => session.step(Step::Launched, NOW).unwrap(),
        SagaKind::Gc => session.step(Step::End(Outcome::Done, None), NOW).unwrap(),
        _ => session,
    }
}

/// What a command may come to.
fn results(command: &SagaCommand) -> Vec<CommandResult> {
    let removed = || {
        [
            RemovedWorkspace::Untouched,
            RemovedWorkspace::Gone(vec![backup(1)]),
            RemovedWorkspace::Dropped,
            RemovedWorkspace::Kept(vec![]),
        ]
    };
    match command {
        SagaCommand::MakeWorkspace => vec![CommandResult::WorkspaceMade {
            workspace: Box::new(workspace(WorkspaceState::Unfurnished)),
            note: None,
        }],
        SagaCommand::SetUpWorkspace => vec![CommandResult::SetUp],
        SagaCommand::Launch { .. } => [None, Some(PromptVia::Typed), Some(PromptVia::Argv)]
            .map(|prompt| CommandResult::Launched {
                native: Some("native-1".parse().unwrap()),
                fresh: None,
                prompt,
            })
            .into(),
        SagaCommand::DeliverTask { .. } => [true, false]
            .map(|taken| CommandResult::TaskDelivered { taken })
            .into(),
        SagaCommand::StopRun => vec![CommandResult::RunStopped],
        SagaCommand::BackUp { .. } => [None, Some(backup(1))]
            .map(|backup| CommandResult::BackedUp { backup })
            .into(),
        SagaCommand::RemoveWorkspace { .. } => removed()
            .map(|removed| CommandResult::WorkspaceRemoved { removed })
            .into(),
        SagaCommand::ForkTranscript { .. } => vec![CommandResult::TranscriptForked {
            shared: Some("m1".parse().unwrap()),
        }],
        SagaCommand::Commit => vec![CommandResult::Committed],
        SagaCommand::Undo { undo } => match undo {
            UndoCommand::EndRun => vec![UndoResult::RunEnded],
            UndoCommand::RemoveNewWorkspace => {
                removed().map(UndoResult::NewWorkspaceRemoved).into()
            }
            UndoCommand::Nothing | UndoCommand::EndSetup | UndoCommand::RemoveForkedTranscript => {
                vec![UndoResult::Nothing]
            }
        }
        .into_iter()
        .map(|undone| CommandResult::Undone { undone })
        .collect(),
        SagaCommand::UndoLeftover { undos } => {
            let left = |(step, _): &(SagaStep, UndoCommand)| (*step, Reason::from_text("busy"));
            vec![
                CommandResult::LeftoverUndone {
                    undone: vec![UndoResult::Nothing],
                    left: undos.iter().skip(1).map(left).collect(),
                },
                CommandResult::LeftoverUndone {
                    undone: vec![],
                    left: undos.iter().map(left).collect(),
                },
            ]
        }
    }
}

fn handle() -> RunHandle {
    "pty:default/api-1/1".parse().unwrap()
}

/// What happens next to a saga: an index into the possible results, or a failure.
#[derive(Clone, Copy, Debug)]
enum Lot {
    Result(usize),
    Fails,
    Cancelled,
    Crashes,
}

fn lot() -> impl Strategy<Value = Lot> {
    prop_oneof![
        6 => (0..4usize).prop_map(Lot::Result),
        2 => Just(Lot::Fails),
        1 => Just(Lot::Cancelled),
        1 => Just(Lot::Crashes),
    ]
}

fn event(saga: &Saga, lot: Lot) -> Option<SagaEvent> {
    Some(match (lot, saga.command()) {
        (Lot::Cancelled, _) => SagaEvent::Cancelled { reason: None },
        // Only the state that was written is left; the command is performed once more.
        (Lot::Crashes, _) if !saga.kind().answers_when_over() => return None,
        (Lot::Crashes, _) => SagaEvent::Orphaned,
        (_, None) => SagaEvent::Admitted,
        (Lot::Fails, Some(_)) => SagaEvent::Failed {
            kind: Kind::Failed,
            text: Reason::from_text("it did not work"),
        },
        (Lot::Result(n), Some(command)) => {
            let results = results(&command);
            SagaEvent::Performed {
                result: results[n % results.len()].clone(),
                handle: Some(handle()),
            }
        }
    })
}

/// The session after what a decision leaves to the ledger.
fn settle(session: Session, ledger: Option<&LedgerCommand>) -> Session {
    match ledger {
        Some(LedgerCommand::EndSession { outcome, reason }) => {
            let end = Step::End(*outcome, reason.clone());
            session.step(end, NOW).unwrap()
        }
        Some(LedgerCommand::MakeChildren { .. }) => {
            let Phase::Locked(saga) = session.phase.clone() else {
                panic!("{:?}", session.phase);
            };
            session.step(Step::AwaitMerge(saga), NOW).unwrap()
        }
        Some(LedgerCommand::MakeFork(_)) | None => session,
    }
}

/// Everything that happened to one saga.
#[derive(Debug)]
struct SagaRun {
    session: Session,
    changes: Vec<SessionChange>,
    made: Option<LedgerCommand>,
    done: Vec<SagaStep>,
    undone: Vec<SagaStep>,
    /// Steps whose undo was begun, whatever came of it.
    went_back: Vec<SagaStep>,
    /// Steps whose undo was put off until later.
    left_over: Vec<SagaStep>,
}

/// Lets the saga meet these lots, and results from then on, until it is over.
fn run_saga(kind: SagaKind, lots: &[Lot]) -> SagaRun {
    let mut saga = saga(kind);
    let mut run = SagaRun {
        session: session(&saga),
        changes: vec![],
        made: None,
        done: vec![],
        undone: vec![],
        went_back: vec![],
        left_over: vec![],
    };
    for n in 0.. {
        assert!(n < 200, "it never ends: {saga:?}");
        let lot = lots.get(n).copied().unwrap_or(Lot::Result(0));
        let Some(event) = event(&saga, lot) else {
            continue;
        };
        if let SagaState::Undoing { step, .. } = &saga.state
            && run.went_back.last() != Some(step)
        {
            run.went_back.push(*step);
        }
        let performed = matches!(event, SagaEvent::Performed { .. });
        match &saga.state {
            SagaState::Doing { step } if performed => run.done.push(*step),
            SagaState::Undoing { step, .. } if performed => run.undone.push(*step),
            _ => {}
        }
        let decision = saga.decide(&run.session, event, NOW).unwrap();
        // L1: every change of the record comes with its event, and every event with a change.
        let writes = match &decision.next {
            NextState::Go(next) | NextState::Later(next, _) => next.version != saga.version,
            NextState::Retry(_) => false,
            NextState::Over => true,
        };
        let tells = !decision.changes.is_empty() || decision.ledger.is_some();
        assert_eq!(writes, tells, "{saga:?} {decision:?}");
        assert!(writes || decision.session.is_none(), "{decision:?}");
        if let Some(after) = decision.session {
            assert_eq!(after.version, run.session.version + 1);
            assert!(
                run.session.phase == after.phase
                    || run.session.phase.name().may_become(after.phase.name())
            );
            run.session = *after;
        }
        run.session = settle(run.session, decision.ledger.as_ref());
        run.changes.extend(decision.changes);
        if let Some(made) = decision.ledger {
            run.made = Some(made);
        }
        if let NextState::Later(next, _) = &decision.next
            && let SagaState::Leftover { steps, .. } = &next.state
        {
            run.left_over.extend(steps);
        }
        match decision.next {
            NextState::Go(next) | NextState::Later(next, _) => {
                assert!(next.version <= saga.version + 1);
                // What is journalled is read back alike, command and all.
                let json = serde_json::to_string(&*next).unwrap();
                let read: Saga = serde_json::from_str(&json).unwrap();
                assert_eq!(read, *next);
                assert_eq!(read.command(), next.command());
                saga = *next;
            }
            NextState::Retry(_) => {}
            NextState::Over => return run,
        }
    }
    unreachable!("a saga ends or the test fails")
}

fn is_free(session: &Session) -> bool {
    session.check_free().is_ok() && !matches!(session.phase, Phase::Locked(_))
}

proptest! {
    /// However often its steps fail and the daemon dies, a saga ends: done or undone, with nothing held.
    #[test]
    fn l4_every_saga_ends_and_lets_its_session_go(
        kind in prop::sample::select(SagaKind::ALL.to_vec()),
        lots in prop::collection::vec(lot(), 0..40),
    ) {
        let run = run_saga(kind, &lots);
        prop_assert!(is_free(&run.session), "{:?}", run);
        let of_saga = |change: &SessionChange| match change {
            SessionChange::Saga { change, .. } => Some(change.clone()),
            _ => None,
        };
        let failed = run
            .changes
            .iter()
            .filter_map(of_saga)
            .any(|c| matches!(c, SagaChange::Failed { .. }));
        let steps = kind.steps();
        if !failed && kind.undoes_on_failure() {
            prop_assert_eq!(&run.done[..], steps);
            prop_assert!(run.undone.is_empty());
        }
        // L4: undone from the step it had come to, last first, and none left out.
        if let Some(first) = run.went_back.first() {
            let at = steps.iter().position(|step| step == first).unwrap();
            let begun: Vec<SagaStep> = steps[..=at].iter().rev().copied().collect();
            prop_assert_eq!(&run.went_back, &begun);
        }
        let made = matches!(
            run.made,
            Some(LedgerCommand::MakeChildren { .. } | LedgerCommand::MakeFork(_))
        );
        prop_assert!(!(failed && made), "undone, and made all the same: {:?}", run);
        match kind {
            SagaKind::Spawn | SagaKind::Restore if failed => {
                prop_assert!(!run.session.phase.is_live());
            }
            SagaKind::Spawn | SagaKind::Restore => prop_assert!(run.session.has_run()),
            SagaKind::Kill => prop_assert!(!run.session.phase.is_live()),
            SagaKind::Handoff => {
                prop_assert_eq!(run.session.owner.to_string() == "agent:b", !failed);
            }
            SagaKind::Gc | SagaKind::Broadcast | SagaKind::Fork => {}
        }
    }
}

#[test]
fn every_kind_goes_through_its_steps_in_order() {
    for kind in SagaKind::ALL {
        let run = run_saga(kind, &[]);
        assert_eq!(run.done, kind.steps(), "{kind:?}");
        assert!(run.undone.is_empty(), "{kind:?}");
    }
}

#[test]
fn l4_a_step_that_fails_undoes_itself_and_those_before() {
    for kind in SagaKind::ALL
        .into_iter()
        .filter(|kind| kind.undoes_on_failure())
    {
        let queued = usize::from(kind.queues());
        for (n, step) in kind.steps().iter().enumerate() {
            let mut lots = vec![Lot::Result(0); n + queued];
            lots.push(Lot::Fails);
            let run = run_saga(kind, &lots);
            let begun: Vec<SagaStep> = kind.steps()[..=n].iter().rev().copied().collect();
            assert_eq!(run.undone, begun, "{kind:?} {step:?}");
        }
    }
}

#[test]
fn l4_an_undo_that_fails_is_tried_again_and_keeps_no_other_from_being_done() {
    for kind in SagaKind::ALL
        .into_iter()
        .filter(|kind| kind.undoes_on_failure())
    {
        let queued = usize::from(kind.queues());
        for (n, step) in kind.steps().iter().enumerate() {
            let mut lots = vec![Lot::Result(0); n + queued];
            lots.extend([Lot::Fails, Lot::Fails]);
            let run = run_saga(kind, &lots);
            let others: Vec<SagaStep> = kind.steps()[..n].iter().rev().copied().collect();
            assert_eq!(run.undone, others, "{kind:?} {step:?}");
            assert_eq!(run.left_over, [*step], "{kind:?} {step:?}");
        }
    }
}

#[test]
fn l2_a_session_whose_task_was_not_taken_in_time_waits_and_is_not_at_work() {
    for (n, phase) in [(0, Phase::Active), (1, Phase::Idle)] {
        let lots = [0, 0, 0, 1, n].map(Lot::Result);
        assert_eq!(run_saga(SagaKind::Spawn, &lots).session.phase, phase);
    }
}

#[test]
fn l5_what_could_not_be_backed_up_is_not_removed() {
    for (kind, stop) in [(SagaKind::Kill, 1), (SagaKind::Gc, 0)] {
        let mut lots = vec![Lot::Result(0); stop];
        lots.push(Lot::Fails);
        let run = run_saga(kind, &lots);
        assert!(!run.done.contains(&SagaStep::Remove), "{kind:?}");
        assert!(run.done.contains(&SagaStep::End), "{kind:?}");
        let gear = run.session.gear.unwrap();
        assert_eq!(gear.workspace.state, WorkspaceState::Planned);
        assert_eq!(gear.note.unwrap().as_str(), "it did not work");
    }
}

#[test]
fn a_kill_that_cannot_stop_the_agent_tries_again_and_claims_nothing() {
    let saga = saga(SagaKind::Kill);
    let session = session(&saga);
    let event = event(&saga, Lot::Fails).unwrap();
    let decision = saga.decide(&session, event, NOW).unwrap();
    assert!(matches!(decision.next, NextState::Retry(_)));
    assert_eq!((decision.session, decision.changes), (None, vec![]));
}

#[test]
fn an_undone_restore_puts_back_how_the_session_had_ended() {
    let lots = [Lot::Result(0), Lot::Result(0), Lot::Fails];
    let run = run_saga(SagaKind::Restore, &lots);
    let ended = Phase::Ended {
        outcome: Outcome::Lost,
        reason: Some(Reason::from_text("gone")),
    };
    assert_eq!(run.session.phase, ended);
    let lots = [Lot::Result(0), Lot::Cancelled];
    let run = run_saga(SagaKind::Restore, &lots);
    assert!(matches!(
        run.session.phase,
        Phase::Ended {
            outcome: Outcome::Killed,
            ..
        }
    ));
}

#[test]
fn commands_and_results_are_read_back_as_they_were_written() {
    for kind in SagaKind::ALL {
        for step in kind.steps() {
            let doing = Saga {
                state: SagaState::Doing { step: *step },
                ..saga(kind)
            };
            let undoing = Saga {
                state: SagaState::Undoing {
                    step: *step,
                    why: Failure {
                        step: *step,
                        kind: Kind::Failed,
                        text: Reason::from_text("it did not work"),
                        outcome: Outcome::Failed,
                    },
                    failed: vec![],
                },
                ..saga(kind)
            };
            for command in [doing, undoing].iter().filter_map(Saga::command) {
                let json = serde_json::to_string(&command).unwrap();
                assert_eq!(serde_json::from_str::<SagaCommand>(&json).unwrap(), command);
                for result in results(&command) {
                    let json = serde_json::to_string(&result).unwrap();
                    let read: CommandResult = serde_json::from_str(&json).unwrap();
                    assert_eq!(read, result);
                }
            }
        }
    }
}
