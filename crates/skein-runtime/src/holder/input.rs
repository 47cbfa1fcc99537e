//! What waits to be typed: numbered, in order, as fast as the terminal takes it.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use rustix::io::{Errno, write};

use crate::log::acts;

/// More than this does not wait; a paste of 16 MB still fits.
const MOST: usize = 32 << 20;
/// Nobody types that much; whoever pastes it by hand waits for the program to read.
const MOST_KEYS: usize = 1 << 20;
/// One write; a pty takes about this much at once.
const PIECE: usize = 4096;
/// So many pieces in one round, that others get their turn.
const ROUND: usize = 64;

/// Whom to tell that something was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) client: u64,
    pub(super) request: u64,
    pub(super) before: bool,
}

#[derive(Debug)]
struct Job {
    bytes: Vec<u8>,
    at: usize,
    number: u64,
    waiters: Vec<Waiter>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// The waiter is told once all of it was written.
    Waits,
    Before,
    Full,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    jobs: VecDeque<Job>,
    answers: Vec<u8>,
    pending: usize,
    /// Highest number in the queue or written.
    accepted: u64,
    /// Highest number that was written whole.
    pub(super) written: u64,
}

impl Queue {
    /// `bytes` under a number; each number once, in growing order.
    pub(super) fn push(&mut self, number: u64, bytes: Vec<u8>, waiter: Waiter) -> Accepted {
        if number <= self.accepted {
            let under_way = self.jobs.iter_mut().find(|job| job.number == number);
            let Some(job) = under_way.filter(|_| number > self.written) else {
                return Accepted::Before;
            };
            job.waiters.push(Waiter {
                before: true,
                ..waiter
            });
            return Accepted::Waits;
        }
        if self.pending + bytes.len() > MOST {
            return Accepted::Full;
        }
        self.accepted = number;
        self.add(number, bytes, vec![waiter]);
        Accepted::Waits
    }

    /// What a viewer typed; dropped when too much waits already.
    pub(super) fn keys(&mut self, bytes: Vec<u8>) {
        if self.pending + bytes.len() <= MOST_KEYS {
            self.add(0, bytes, vec![]);
        }
    }

    /// Answers to the program's questions; they never come in the middle of a paste.
    pub(super) fn answer(&mut self, bytes: &[u8]) {
        if self.answers.len() + bytes.len() <= PIECE {
            self.answers.extend_from_slice(bytes);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.answers.is_empty()
    }

    /// Writes what the terminal takes now; gives who is to be told.
    pub(super) fn write_to(&mut self, terminal: impl AsFd) -> Vec<Waiter> {
        let mut told = vec![];
        for _ in 0..ROUND {
            let between = self.jobs.front().is_none_or(|job| job.at == 0);
            if between && !self.answers.is_empty() {
                match write(&terminal, &self.answers) {
                    Ok(taken) => drop(self.answers.drain(..taken)),
                    Err(_) => break,
                }
                continue;
            }
            let Some(job) = self.jobs.front_mut() else {
                break;
            };
            let piece = &job.bytes[job.at..(job.at + PIECE).min(job.bytes.len())];
            if !piece.is_empty() {
                match write(&terminal, piece) {
                    Ok(taken) => {
                        job.at += taken;
                        self.pending -= taken;
                    }
                    Err(Errno::INTR) => {}
                    // Full, or nobody is there any more; the end of the run is told elsewhere.
                    Err(_) => break,
                }
            }
            if job.at == job.bytes.len() {
                self.written = self.written.max(job.number);
                told.append(&mut job.waiters);
                self.jobs.pop_front();
            }
        }
        told
    }

    /// Everybody who still waits; what they wait for will not be written.
    pub(super) fn give_up(&mut self) -> Vec<Waiter> {
        self.answers.clear();
        self.pending = 0;
        self.jobs.drain(..).flat_map(|job| job.waiters).collect()
    }

    fn add(&mut self, number: u64, bytes: Vec<u8>, waiters: Vec<Waiter>) {
        self.pending += bytes.len();
        self.jobs.push_back(Job {
            bytes,
            at: 0,
            number,
            waiters,
        });
    }
}

/// A text as a terminal pastes it. Nothing in it acts: it can neither close its own bracket nor press a key.
pub(super) fn paste(text: &str, bracketed: bool) -> Vec<u8> {
    let text = text.replace("\r\n", "\n");
    let mut bytes = Vec::with_capacity(text.len() + 12);
    if bracketed {
        bytes.extend(b"\x1b[200~");
    }
    let mut buffer = [0; 4];
    for c in text.chars() {
        match c {
            // Enter on a keyboard sends a carriage return, and so does a terminal that pastes.
            '\n' | '\r' => bytes.push(b'\r'),
            '\t' => bytes.push(b'\t'),
            c if acts(c) && c.is_control() => {}
            c => bytes.extend(c.encode_utf8(&mut buffer).as_bytes()),
        }
    }
    if bracketed {
        bytes.extend(b"\x1b[201~");
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(request: u64) -> Waiter {
        Waiter {
            client: 1,
            request,
            before: false,
        }
    }

    #[test]
    fn l6_a_number_under_way_is_waited_for_and_one_written_is_before() {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let mut queue = Queue::default();
        let big = vec![b'x'; 1 << 20];
        assert_eq!(queue.push(1, big.clone(), waiter(1)), Accepted::Waits);
        assert_eq!(queue.write_to(&writer), []);
        assert_eq!(queue.push(1, big, waiter(2)), Accepted::Waits);
        queue.answer(b"answer");
        let mut told = vec![];
        let mut got = vec![];
        let mut buffer = vec![0; 1 << 16];
        while !queue.is_empty() {
            let count = rustix::io::read(&reader, &mut buffer[..]).unwrap();
            got.extend_from_slice(&buffer[..count]);
            told.extend(queue.write_to(&writer));
        }
        let again = Waiter {
            before: true,
            ..waiter(2)
        };
        assert_eq!(told, [waiter(1), again]);
        while let Ok(count) = rustix::io::read(&reader, &mut buffer[..]) {
            got.extend_from_slice(&buffer[..count]);
        }
        assert!(got.ends_with(b"xanswer") && got.len() == (1 << 20) + 6);
        assert_eq!(queue.push(1, vec![], waiter(3)), Accepted::Before);
        assert_eq!(queue.written, 1);
    }

    #[test]
    fn l15_a_paste_holds_nothing_that_acts() {
        assert_eq!(paste("a\nb\r\nc\td", false), b"a\rb\rc\td");
        assert_eq!(
            paste("x\x1b[201~\x03\u{9b}y", true),
            b"\x1b[200~x[201~y\x1b[201~"
        );
    }
}
