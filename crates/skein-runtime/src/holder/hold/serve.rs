//! Requests of clients, and messages that the holder sends by itself.

use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::process::getuid;
use rustix::termios::{Winsize, tcsetwinsize};

use super::{DRAW_EVERY, Holder, LOOK_SOON};
use crate::frame::{ClientMessage, HolderMessage, VERSION};
use crate::holder::client::{Client, Viewer};
use crate::holder::draw::View;
use crate::holder::input::{Accepted, Waiter, paste};
use crate::log::acts;
use crate::runtime::Size;

const MOST_CLIENTS: usize = 64;
/// Longest displayed name of a viewer.
const LONGEST_NAME: usize = 40;

impl Holder {
    pub(super) fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let ours = socket_peercred(&stream)
                .is_ok_and(|peer| peer.uid == getuid() || peer.uid.is_root());
            if !ours || self.clients.len() >= MOST_CLIENTS || stream.set_nonblocking(true).is_err()
            {
                continue;
            }
            self.clients.push(Client::new(self.next_client, stream));
            self.next_client += 1;
        }
    }

    pub(super) fn serve(&mut self, id: u64) {
        let Some(client) = self.clients.iter_mut().find(|c| c.id == id) else {
            return;
        };
        client.write();
        for (ask, body) in client.read() {
            self.answer(id, ask, body);
        }
    }

    pub(super) fn send(&mut self, id: u64, what: &HolderMessage) {
        if let Some(client) = self.clients.iter_mut().find(|c| c.id == id) {
            client.send(what, &[]);
        }
    }

    fn answer(&mut self, id: u64, ask: ClientMessage, body: Vec<u8>) {
        match ask {
            ClientMessage::Hello { version } => self.greet(id, version),
            ClientMessage::Write {
                request,
                number,
                paste,
            } => self.write(id, request, number, paste, body),
            ClientMessage::Screen { request } => {
                let screen = self.terminal.shown(self.bytes, self.typed);
                self.send(id, &HolderMessage::Screen { request, screen });
            }
            ClientMessage::Resize {
                request,
                rows,
                cols,
            } => {
                self.resize(Size { rows, cols });
                self.send(id, &HolderMessage::Done { request });
            }
            ClientMessage::End { request, grace_ms } => {
                self.asked = true;
                self.tree
                    .end(Duration::from_millis(grace_ms.min(3_600_000)));
                self.send(id, &HolderMessage::Done { request });
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
                    drawn: 0,
                    drawn_at: None,
                };
                self.view(id, version, viewer, take);
            }
            ClientMessage::Keys => {
                if self.typist == Some(id) && !self.is_ended() {
                    self.typed += 1;
                    self.input.keys(body);
                }
            }
            ClientMessage::Viewport { rows, cols } => self.viewport(id, rows, cols),
            ClientMessage::Take => self.take(id),
        }
    }

    fn is_ended(&self) -> bool {
        self.exit.is_some() || self.draining.is_some()
    }

    fn greet(&mut self, id: u64, version: u32) {
        let sight = self.sight();
        if let Some(client) = self.clients.iter_mut().find(|c| c.id == id) {
            // There is no later version yet.
            client.gone |= version != VERSION;
            client.listens = true;
            client.send(&sight, &[]);
        }
    }

    fn write(&mut self, id: u64, request: u64, number: u64, is_paste: bool, body: Vec<u8>) {
        let waiter = Waiter {
            client: id,
            request,
            before: false,
        };
        if self.is_ended() && number > self.input.written {
            let exit = self.exit.or(self.draining.as_ref().map(|d| d.exit));
            let exit = exit.unwrap_or(skein_domain::Exit::Unseen).into();
            return self.send(id, &HolderMessage::Over { request, exit });
        }
        let bytes = if is_paste {
            let text = String::from_utf8_lossy(&body);
            paste(&text, self.terminal.screen().bracketed_paste())
        } else {
            body
        };
        match self.input.push(number, bytes, waiter) {
            Accepted::Waits => self.typed_at = Some(Instant::now()),
            Accepted::Before => self.send(
                id,
                &HolderMessage::Taken {
                    request,
                    before: true,
                },
            ),
            Accepted::Full => self.send(
                id,
                &HolderMessage::Refused {
                    request,
                    why: "too much input is waiting already".into(),
                },
            ),
        }
    }

    fn resize(&mut self, size: Size) {
        self.terminal.resize(size);
        let size = self.terminal.size();
        // The kernel notifies the program.
        let _ = tcsetwinsize(
            &self.master,
            Winsize {
                ws_row: size.rows,
                ws_col: size.cols,
                ws_xpixel: 0,
                ws_ypixel: 0,
            },
        );
    }

    fn view(&mut self, id: u64, version: u32, viewer: Viewer, take: bool) {
        let typist = self.clients.iter().find(|c| Some(c.id) == self.typist);
        let typist_yields = typist.is_some_and(|c| c.viewer.as_ref().is_some_and(|v| v.yields));
        let is_free = self.typist.is_none() || (typist_yields && !viewer.yields);
        let may_type = !viewer.read_only;
        if let Some(client) = self.clients.iter_mut().find(|c| c.id == id) {
            client.gone |= version != VERSION;
            client.viewer = Some(viewer);
        }
        if may_type && (take || is_free) {
            self.take(id);
        } else {
            self.notify_viewers(None);
        }
    }

    /// Gives the keyboard to `id` and notifies all viewers.
    fn take(&mut self, id: u64) {
        let viewer = |client: &Client| {
            client
                .viewer
                .as_ref()
                .map(|v| (v.name.clone(), v.read_only))
        };
        let Some((name, false)) = self.clients.iter().find(|c| c.id == id).and_then(viewer) else {
            return;
        };
        if self.typist == Some(id) {
            return;
        }
        let note = self.typist.map(|_| format!("{name} took over"));
        self.typist = Some(id);
        // Only the typist's terminal gets the key modes.
        for client in &mut self.clients {
            if let Some(viewer) = &mut client.viewer {
                viewer.drawn = 0;
            }
        }
        self.terminal.changes += 1;
        self.fit();
        self.notify_viewers(note.as_deref());
    }

    fn viewport(&mut self, id: u64, rows: u16, cols: u16) {
        let client = self.clients.iter_mut().find(|c| c.id == id);
        if let Some(viewer) = client.and_then(|c| c.viewer.as_mut()) {
            viewer.view.resize(rows, cols);
            viewer.drawn = 0;
            self.terminal.changes += 1;
        }
        if self.typist == Some(id) {
            self.fit();
        }
    }

    /// Resizes the terminal to the typist's.
    fn fit(&mut self) {
        let typist = self.clients.iter().find(|c| Some(c.id) == self.typist);
        if let Some(viewer) = typist.and_then(|c| c.viewer.as_ref()) {
            let size = Size {
                rows: viewer.view.rows,
                cols: viewer.view.cols,
            };
            if size != self.terminal.size() && size.rows > 0 && size.cols > 0 {
                self.resize(size);
            }
        }
    }

    fn notify_viewers(&mut self, note: Option<&str>) {
        let viewers = self.clients.iter().filter(|c| c.viewer.is_some()).count();
        let typist = self.clients.iter().find(|c| Some(c.id) == self.typist);
        let typist = typist
            .and_then(|c| c.viewer.as_ref())
            .map(|v| v.name.clone());
        for client in &mut self.clients {
            if client.viewer.is_some() {
                let state = HolderMessage::State {
                    typist: typist.clone(),
                    typing: Some(client.id) == self.typist,
                    viewers: u32::try_from(viewers).unwrap_or(u32::MAX),
                    note: note.map(ToOwned::to_owned),
                };
                client.send(&state, &[]);
            }
        }
    }

    fn sight(&self) -> HolderMessage {
        HolderMessage::Sight {
            bytes: self.bytes,
            output_at: self.output_at,
            input: self.input.written,
            pid: match self.exit {
                None => u32::try_from(self.pid).ok(),
                Some(_) => None,
            },
            exit: self.exit.map(Into::into),
        }
    }

    /// Sends changes to observers, at most once per interval.
    pub(super) fn send_sights(&mut self) {
        let due = self
            .reported_at
            .is_none_or(|at| at.elapsed() >= self.report_every());
        if self.reported == self.changes || !due {
            return;
        }
        self.reported = self.changes;
        self.reported_at = Some(Instant::now());
        let sight = self.sight();
        for client in self.clients.iter_mut().filter(|c| c.listens) {
            client.send(&sight, &[]);
        }
    }

    /// Draws for each viewer that has received the previous frame; a slow one gets fewer frames.
    pub(super) fn draw(&mut self) {
        for client in &mut self.clients {
            let typing = self.typist == Some(client.id);
            let waits = client.waits();
            let Some(viewer) = &mut client.viewer else {
                continue;
            };
            let due = viewer.drawn_at.is_none_or(|at| at.elapsed() >= DRAW_EVERY);
            if viewer.drawn == self.terminal.changes || waits || !due {
                continue;
            }
            let picture = viewer.view.draw(self.terminal.screen(), typing);
            viewer.drawn = self.terminal.changes;
            viewer.drawn_at = Some(Instant::now());
            client.send(&HolderMessage::Draw, picture.as_bytes());
        }
    }

    pub(super) fn remove_clients(&mut self) {
        let gone = |c: &Client| c.gone && c.viewer.is_some();
        let viewer_left = self.clients.iter().any(gone);
        let typist_left = self
            .clients
            .iter()
            .any(|c| c.gone && Some(c.id) == self.typist);
        if self.clients.iter().any(|c| c.gone) {
            self.look_at = self.look_at.min(Instant::now() + LOOK_SOON);
        }
        self.clients.retain(|c| !c.gone);
        if typist_left {
            self.typist = None;
            // The longest-attached viewer types next; one that yields comes last.
            let viewers = self
                .clients
                .iter()
                .filter_map(|c| Some((c.id, c.viewer.as_ref()?)));
            let next = viewers
                .filter(|(_, v)| !v.read_only)
                .min_by_key(|(_, v)| v.yields);
            if let Some((id, _)) = next {
                return self.take(id);
            }
        }
        if viewer_left {
            self.notify_viewers(None);
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
