//! `sessions/PID.json`: the state that a running Claude Code reports.
//!
//! The program removes it at its end, but not after a kill. The process id may then belong to another process, so the
//! start time must match too.

use std::str::FromStr;

use serde::Deserialize;
use skein_domain::{Activity, NativeId};

use crate::agent::{Process, Reader, Reading};

#[derive(Debug)]
pub(super) struct State {
    process: Option<Process>,
    /// The last reported state: the file is also written without a change of it.
    reported: Option<(String, Option<u64>)>,
    native: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    pid: u32,
    proc_start: Option<String>,
    session_id: Option<String>,
    status: Option<String>,
    waiting_for: Option<String>,
    status_updated_at: Option<u64>,
}

impl State {
    pub(super) fn new(process: Option<Process>) -> Self {
        Self {
            process,
            reported: None,
            native: None,
        }
    }

    fn is_ours(&self, file: &File) -> bool {
        self.process.is_some_and(|process| {
            let started = file.proc_start.as_deref().and_then(|s| s.parse().ok());
            file.pid == process.pid && started.is_none_or(|at: u64| at == process.started)
        })
    }
}

impl Reader for State {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        let Ok(file) = serde_json::from_str::<File>(text) else {
            return vec![];
        };
        if !self.is_ours(&file) {
            return vec![];
        }
        let mut readings = Vec::new();
        if file.session_id.is_some() && file.session_id != self.native {
            let id = file.session_id.as_deref().map(NativeId::from_str);
            readings.extend(id.and_then(Result::ok).map(Reading::Native));
            self.native.clone_from(&file.session_id);
        }
        let activity = match file.status.as_deref() {
            Some("idle") => Activity::Ready,
            Some("busy") => Activity::Active,
            Some("waiting") => Activity::WaitingInput,
            _ => return readings,
        };
        let reported = (file.status.unwrap_or_default(), file.status_updated_at);
        if self.reported.as_ref() != Some(&reported) {
            let rule = format!("state {}", reported.0);
            readings.push(Reading::does(activity, rule, file.waiting_for.as_deref()));
            self.reported = Some(reported);
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Process = Process {
        pid: 7,
        started: 1421,
    };

    fn file(rest: &str) -> String {
        format!(r#"{{"pid":7,"procStart":"1421","sessionId":"a-1","name":"x"{rest}}}"#)
    }

    fn does(activity: Activity, rule: &str, detail: Option<&str>) -> Reading {
        Reading::Activity {
            activity,
            rule: rule.into(),
            detail: detail.map(str::to_owned),
        }
    }

    #[test]
    fn each_change_of_its_state_is_told_once() {
        let mut state = State::new(Some(OURS));
        let native = Reading::Native("a-1".parse().unwrap());
        assert_eq!(state.read(&file("")), [native]);
        let busy = file(r#","status":"busy","statusUpdatedAt":1"#);
        assert_eq!(
            state.read(&busy),
            [does(Activity::Active, "state busy", None)]
        );
        let renamed = file(r#","status":"busy","statusUpdatedAt":1,"updatedAt":9"#);
        assert_eq!(state.read(&renamed), []);
        let waiting =
            file(r#","status":"waiting","statusUpdatedAt":2,"waitingFor":"permission prompt""#);
        assert_eq!(
            state.read(&waiting),
            [does(
                Activity::WaitingInput,
                "state waiting",
                Some("permission prompt")
            )]
        );
        let idle = file(r#","status":"idle","statusUpdatedAt":3"#);
        assert_eq!(
            state.read(&idle),
            [does(Activity::Ready, "state idle", None)]
        );
    }

    #[test]
    fn l3_a_state_that_another_process_left_is_not_believed() {
        let busy = file(r#","status":"busy","statusUpdatedAt":1"#);
        for other in [
            None,
            Some(Process { pid: 8, ..OURS }),
            Some(Process {
                started: 1422,
                ..OURS
            }),
        ] {
            assert_eq!(State::new(other).read(&busy), [], "{other:?}");
        }
    }
}
