//! What a command line becomes, and what it refuses.

use std::path::PathBuf;

use skein_domain::{Kind, LaunchSettings};

use super::*;
use crate::agent::{Draft, ScreenView};

fn order(task: &str) -> LaunchRequest {
    LaunchRequest {
        session: "api-7".parse().unwrap(),
        run: 1,
        task: task.parse().unwrap(),
        settings: LaunchSettings::default(),
        workspace: PathBuf::from("/"),
        private: PathBuf::from("/private"),
        skein: PathBuf::from("/bin/skein"),
        path: "/usr/bin:/bin".into(),
        env: BTreeMap::new(),
        native: None,
    }
}

fn configured(settings: &str) -> Custom {
    let settings = toml::from_str(settings).unwrap();
    Custom::configured("stub".parse().unwrap(), settings, Path::new("/")).unwrap()
}

fn argv(agent: &Custom, order: &LaunchRequest) -> Vec<String> {
    agent.start(order).unwrap().argv
}

#[test]
fn l15_prompts_are_never_part_of_the_command() {
    let agent = configured("command = 'sh -i'\nprompt = 'argv'");
    assert_eq!(
        argv(&agent, &order("$(reboot)")),
        ["sh", "-c", "exec sh -i \"$@\"", "sh", "$(reboot)"]
    );
    let typed = configured("command = 'sh -i'");
    assert_eq!(argv(&typed, &order("x")), ["sh", "-c", "exec sh -i", "sh"]);
}

#[test]
fn l15_conversation_ids_are_never_part_of_the_command() {
    let agent = configured("command = 'sh'\nresume = 'sh --resume {native}'");
    let mut order = order("x");
    order.native = Some("a'; reboot #".parse().unwrap());
    let start = agent.resume(&order).unwrap();
    assert_eq!(
        start.argv,
        [
            "sh",
            "-c",
            "skein_native=$1; shift; exec sh --resume \"$skein_native\"",
            "sh",
            "a'; reboot #"
        ]
    );
    assert_eq!(start.prompt, None);
}

#[test]
fn l15_a_prompt_never_becomes_a_command_of_its_own() {
    for command in [
        "sleep 1 &",
        "sleep 1;",
        "sleep 1 |",
        "sleep 1 &&",
        "sleep 1 # rest",
        "sleep \\\\",
    ] {
        let agent = configured(&format!("command = \"{command}\"\nprompt = 'argv'"));
        let error = agent.start(&order("reboot")).unwrap_err();
        assert_eq!(error.kind(), Kind::Misuse, "{command}");
    }
}

#[test]
fn a_prompt_like_an_option_needs_a_separator() {
    let bare = configured("command = 'sh'\nprompt = 'argv'");
    let error = bare.start(&order("-c reboot")).unwrap_err();
    assert!(!error.hints().is_empty());
    let separated = configured("command = 'sh'\nprompt = 'argv'\nseparator = '--'");
    assert_eq!(
        argv(&separated, &order("-c reboot"))[4..],
        ["--", "-c reboot"]
    );
}

#[test]
fn the_bare_command_says_nothing_of_itself() {
    let agent = Custom::bare();
    assert!(!agent.abilities().has_signal());
    assert_eq!(agent.start(&order("x")).unwrap_err().kind(), Kind::Misuse);
    let mut order = order("x");
    order.settings.command = Some("cd / && exec sh".parse().unwrap());
    assert_eq!(argv(&agent, &order), ["sh", "-c", "cd / && exec sh", "sh"]);
    let rows = vec!["> hello".to_owned()];
    let picture = ScreenView {
        rows: &rows,
        cursor: (0, 0),
        title: None,
    };
    assert_eq!(agent.draft(picture), Draft::Unknown);
    assert_eq!(agent.read_screen(picture), []);
}

#[test]
fn missing_programs_come_with_their_cure() {
    let agent = configured("command = 'no-such-agent --x'\ninstall = 'make agent'");
    let error = agent.start(&order("x")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "agent program `no-such-agent` is not installed"
    );
    assert_eq!(error.hints(), ["`make agent` installs it"]);
    let found = agent.find("/bin", &BTreeMap::new());
    assert_eq!(
        found.missing.as_deref(),
        Some("`no-such-agent` is not in PATH")
    );
}

#[test]
fn models_need_a_flag() {
    let mut order = order("do it");
    order.settings.model = Some("big-1".parse().unwrap());
    let agent = configured("command = 'sh'");
    assert_eq!(agent.start(&order).unwrap_err().kind(), Kind::Misuse);
    let agent = configured("command = 'sh'\nmodel_flag = '-m'\nprompt = 'argv'");
    assert_eq!(argv(&agent, &order)[4..], ["-m", "big-1", "do it"]);
}

#[test]
fn why_it_cannot_be_resumed_is_told() {
    let mut order = order("x");
    let none = configured("command = 'sh'");
    assert!(
        none.resume(&order)
            .unwrap_err()
            .to_string()
            .contains("no `resume` command")
    );
    let agent = configured("command = 'sh'\nresume = 'sh {native}'");
    assert!(
        agent
            .resume(&order)
            .unwrap_err()
            .to_string()
            .contains("never reported")
    );
    order.settings.command = Some("sh".parse().unwrap());
    assert!(
        agent
            .resume(&order)
            .unwrap_err()
            .to_string()
            .contains("--command")
    );
    // A program that finds its last conversation by itself needs no name for it.
    let last = configured("command = 'sh'\nresume = 'sh --continue'");
    order.settings.command = None;
    assert_eq!(last.resume(&order).unwrap().argv[2], "exec sh --continue");
}
