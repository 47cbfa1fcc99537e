//! Requests of clients.

use std::time::Duration;

use skein_domain::Exit;

use super::Holder;
use crate::frame::{ClientMessage, HolderMessage};
use crate::holder::client::Viewer;
use crate::holder::draw::View;
use crate::holder::input::{Accepted, Waiter, paste};
use crate::log::acts;
use crate::runtime::Size;

/// Longest displayed name of a viewer.
const LONGEST_NAME: usize = 40;

impl Holder {
    pub(super) fn serve(&mut self, id: u64) {
        for (message, body) in self.clients.serve(id) {
            self.answer(id, message, body);
        }
    }

    fn answer(&mut self, id: u64, message: ClientMessage, body: Vec<u8>) {
        match message {
            ClientMessage::Hello { version } => {
                let sight = self.sight();
                self.clients.greet(id, version, &sight);
            }
            ClientMessage::Write {
                request,
                number,
                paste,
            } => {
                if let Some(answer) = self.write(id, request, number, paste, body) {
                    self.clients.send(id, &answer);
                }
            }
            ClientMessage::Screen { request } => {
                let screen = self.pty.shown();
                let answer = HolderMessage::Screen { request, screen };
                self.clients.send(id, &answer);
            }
            ClientMessage::Resize {
                request,
                rows,
                cols,
            } => {
                self.pty.resize(Size { rows, cols });
                self.clients.send(id, &HolderMessage::Done { request });
            }
            ClientMessage::End { request, grace_ms } => {
                self.end.request();
                let grace = Duration::from_millis(grace_ms.min(3_600_000));
                self.tree.end(grace);
                self.clients.send(id, &HolderMessage::Done { request });
            }
            ClientMessage::View {
                version,
                name,
                take,
                read_only,
                yields,
                rows,
                cols,
            } => {
                let viewer = Viewer {
                    name: shown_name(&name),
                    read_only,
                    yields,
                    view: View::new(rows, cols),
                    drawn: None,
                    drawn_at: None,
                };
                if self.clients.view(id, version, viewer, take) {
                    self.fit();
                }
            }
            ClientMessage::Keys => {
                if self.clients.is_typist(id) && self.end.agent_exit().is_none() {
                    self.pty.type_keys(body);
                }
            }
            ClientMessage::Viewport { rows, cols } => {
                self.clients.set_viewport(id, Size { rows, cols });
                if self.clients.is_typist(id) {
                    self.fit();
                }
            }
            ClientMessage::Take => {
                if self.clients.take(id) {
                    self.fit();
                }
            }
        }
    }

    /// Queues an input. No answer yet if the client waits until it is written.
    fn write(
        &mut self,
        client: u64,
        request: u64,
        number: u64,
        is_paste: bool,
        body: Vec<u8>,
    ) -> Option<HolderMessage> {
        if let Some(exit) = self.end.agent_exit()
            && number > self.pty.input.written
        {
            let exit = exit.into();
            return Some(HolderMessage::Over { request, exit });
        }
        let bytes = if is_paste {
            let text = String::from_utf8_lossy(&body);
            paste(&text, self.pty.terminal.screen().bracketed_paste())
        } else {
            body
        };
        let waiter = Waiter {
            client,
            request,
            before: false,
        };
        match self.pty.input.push(number, bytes, waiter) {
            Accepted::Waits => {
                self.reports.typed();
                None
            }
            Accepted::Before => Some(HolderMessage::Taken {
                request,
                before: true,
            }),
            Accepted::Full => Some(HolderMessage::Refused {
                request,
                why: "too much input is waiting already".into(),
            }),
        }
    }

    pub(super) fn answer_writes(&mut self, waiters: &[Waiter]) {
        for waiter in waiters {
            self.reports.changed();
            let taken = HolderMessage::Taken {
                request: waiter.request,
                before: waiter.before,
            };
            self.clients.send(waiter.client, &taken);
        }
    }

    /// Resizes the agent's terminal to the typist's.
    pub(super) fn fit(&mut self) {
        let size = self.clients.typist_size();
        if let Some(size) = size.filter(|size| *size != self.pty.terminal.size()) {
            self.pty.resize(size);
        }
    }

    pub(super) fn sight(&self) -> HolderMessage {
        let exit: Option<Exit> = self.end.exit;
        HolderMessage::Sight {
            bytes: self.pty.bytes,
            output_at: self.pty.output_at,
            input: self.pty.input.written,
            pid: match exit {
                None => u32::try_from(self.tree.agent()).ok(),
                Some(_) => None,
            },
            exit: exit.map(Into::into),
        }
    }
}

fn shown_name(name: &str) -> String {
    let seen = name.chars().filter(|c| !acts(*c));
    let name: String = seen.take(LONGEST_NAME).collect();
    if name.trim().is_empty() {
        "somebody".into()
    } else {
        name
    }
}
