//! What a supervisor knows of the agent of its run: how to read and answer it, what it was seen to do, what it shows.

use std::sync::Arc;

use skein_agent::agent::{Agent, AnswerTarget, Draft, Process, Reply, ScreenView};
use skein_domain::{Activity, Delivery, Phase, Question, Reason, Receipt, Session};
use skein_runtime::runtime::{RunObservation, Screen};

use crate::activity::ActivityEvidence;
use crate::courier::{self, Act, AnswerMethod, InputBox, PromptOwner, QuestionShown};
use crate::settings::ProjectSettings;
use crate::tail::process;

#[derive(Debug, Default)]
pub(crate) struct ObservedAgent {
    /// None until the project's settings could be read.
    pub(crate) program: Option<Arc<dyn Agent>>,
    pub(crate) settings: Option<ProjectSettings>,
    pub(crate) evidence: ActivityEvidence,
    pub(crate) sight: RunObservation,
    pub(crate) screen: Screen,
}

impl ObservedAgent {
    /// Whether anything shows what the agent does.
    pub(crate) fn has_signal(&self) -> bool {
        let program = self.program.as_ref();
        program.is_some_and(|a| a.abilities().has_signal())
    }

    pub(crate) fn process(&self) -> Option<Process> {
        self.sight.pid.and_then(process)
    }

    pub(super) fn read_screen(&mut self, now: u64) {
        let Some(program) = &self.program else {
            return;
        };
        let readings = program.read_screen(picture(&self.screen));
        self.evidence.screen.box_hidden = self.input_box() == InputBox::Unseen;
        self.evidence.launch_over(now);
        self.evidence.apply_screen(readings, now);
    }

    pub(crate) fn input_box(&self) -> InputBox {
        match self
            .program
            .as_ref()
            .map(|a| a.draft(picture(&self.screen)))
        {
            None | Some(Draft::Unknown) => InputBox::Unknown,
            Some(Draft::Unseen) => InputBox::Unseen,
            Some(Draft::Empty) => InputBox::Empty,
            Some(Draft::Holds(_)) => InputBox::Holds,
        }
    }

    /// Whether a message waits only for a person's text in the agent's input box.
    pub(crate) fn meets_a_draft(&self, receipt: &Receipt, act: &Act) -> bool {
        matches!(act, Act::Wait(None))
            && receipt.state == Delivery::Accepted
            && self.evidence.activity() == Some(Activity::Ready)
            && self.input_box() == InputBox::Holds
    }

    /// What the agent asks now; of a question that is not known, no more than that it asks.
    pub(crate) fn question(&self) -> Question {
        let asked = self.evidence.question.asked.clone();
        asked.unwrap_or_else(some_question)
    }

    /// Whether the agent asks what the answer is for.
    pub(crate) fn question_shown(&self, session: &Session, receipt: &Receipt) -> QuestionShown {
        match self.evidence.asks() {
            None => QuestionShown::CannotTell,
            Some(false) => QuestionShown::No,
            Some(true) => {
                let now = self.question();
                let recorded = match &session.phase {
                    Phase::AwaitingInput(question) => Some(question),
                    _ => None,
                };
                // Until it is recorded it may be another one in the same words.
                let is_now = |question: &Question| question.is_same(&now);
                let same =
                    receipt.question.as_ref().is_some_and(is_now) && recorded.is_some_and(is_now);
                if same {
                    QuestionShown::Yes
                } else {
                    QuestionShown::No
                }
            }
        }
    }

    /// Whose prompt the agent reported to have taken since this message was submitted, if it reported one.
    pub(crate) fn prompt_owner(&self, receipt: &Receipt) -> Option<PromptOwner> {
        let turn = &self.evidence.turn;
        if turn.is_in_transcript(&receipt.id) {
            return Some(PromptOwner::Ours);
        }
        let reported = turn.prompt_taken.then_some(turn.prompt.as_deref());
        reported.map(|reported| courier::prompt_owner(reported, receipt.text.as_str()))
    }

    /// What is to be typed for a receipt.
    pub(crate) fn reply(&self, receipt: &Receipt) -> Reply {
        let (Some(program), Some(question)) = (&self.program, &receipt.question) else {
            return Reply::Text(receipt.text.clone());
        };
        let text = Reason::from_text(receipt.text.as_str());
        let option = question.options.iter().position(|o| *o == text);
        let wanted = self.evidence.question.wanted;
        match program.answer(question, option, &text) {
            Reply::Text(_) if wanted == Some(AnswerTarget::Permission) && option.is_none() => {
                Reply::Cannot {
                    why: "a permission is not given by text; nothing was typed".into(),
                }
            }
            reply => reply,
        }
    }

    pub(crate) fn answer_method(&self, receipt: &Receipt) -> AnswerMethod {
        match self.reply(receipt) {
            Reply::Keys(_) => AnswerMethod::Keys,
            Reply::Text(_) => AnswerMethod::Text,
            Reply::Cannot { why } => AnswerMethod::Cannot(why),
        }
    }
}

/// A screen as agents read it.
pub(crate) fn picture(screen: &Screen) -> ScreenView<'_> {
    ScreenView {
        rows: &screen.rows,
        cursor: screen.cursor,
        title: None,
    }
}

/// The question of an agent that shows no more than that it asks.
fn some_question() -> Question {
    Question {
        text: "it waits for input; `skein attach` shows for what"
            .parse()
            .expect("a short plain text is a reason"),
        options: vec![],
        kinds: vec![],
        id: None,
    }
}
