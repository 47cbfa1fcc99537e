//! One agent's life, from its task to its end.

use crate::harness::Fleet;

#[test]
fn an_agent_takes_its_task_is_talked_to_and_ends() {
    let fleet = Fleet::new();
    let session = fleet.spawn("write a.txt one", &[]);
    let idle = fleet.until_status(&session, "idle");
    assert_eq!(idle["workspace"]["kind"], "worktree");
    assert_eq!(idle["runtime"]["kind"], "pty");
    assert_eq!(idle["runtime"]["state"], "alive");
    let receipt = fleet.json(&["send", &session, "write b.txt two; commit both"]);
    assert!(
        ["submitted", "turn_started"].contains(&receipt["state"].as_str().unwrap()),
        "{receipt}"
    );
    fleet.until_status(&session, "idle");
    assert_eq!(
        fleet.prompts(&session),
        ["write a.txt one", "write b.txt two; commit both"]
    );
    let folder = fleet.folder(&session);
    assert_eq!(
        std::fs::read_to_string(folder.join("a.txt"))
            .unwrap()
            .trim(),
        "one"
    );
    let killed = fleet.json(&["kill", &session]);
    assert_eq!(killed["status"], "killed");
    fleet.until_no_agents();
    assert!(!folder.exists(), "a clean workspace goes with its session");
    assert!(
        fleet
            .git(&["log", "--oneline", &format!("skein/{session}")])
            .contains("both")
    );
}

#[test]
fn a_question_is_answered_and_the_turn_goes_on() {
    let fleet = Fleet::new();
    let session = fleet.spawn("ask which colour? | red | blue\nsay thanks", &[]);
    let asking = fleet.until_status(&session, "needs_input");
    assert!(
        asking["status_reason"]
            .as_str()
            .unwrap()
            .contains("which colour?"),
        "{asking}"
    );
    fleet.json(&["answer", &session, "2"]);
    fleet.until_status(&session, "idle");
    let answers = crate::harness::json_lines(&fleet.private(&session).join("answers.jsonl"));
    assert!(answers[0].to_string().contains("blue"), "{answers:?}");
    assert!(
        fleet
            .kinds(&session)
            .contains(&"session.answered".to_owned())
    );
}

#[test]
fn an_ended_agent_is_restored_in_its_conversation() {
    let fleet = Fleet::new();
    let session = fleet.spawn("say one", &[]);
    fleet.until_status(&session, "idle");
    fleet.json(&["kill", &session]);
    let back = fleet.json(&["restore", &session]);
    assert_eq!(back["run"], 2, "{back}");
    fleet.until_status(&session, "idle");
    let screen = fleet.run(&["screen", &session]).stdout;
    assert!(screen.contains("resumed after 1 turn"), "{screen}");
    assert_eq!(
        fleet.prompts(&session),
        ["say one"],
        "the task is not given twice"
    );
}
