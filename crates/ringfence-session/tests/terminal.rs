//! The terminal of a session (claim A16), tried as a user would: the test is the user's terminal and types, the example
//! `pty_run` is the supervisor, and the payload is a real program.
//!
//! Every case runs as who runs the tests and, when that is root, as an ordinary user too. The latter does not own the terminal
//! that the test made, as after `su`, so the supervisor's second way of holding it is tried with the same cases.

#[path = "terminal/alone.rs"]
mod alone;
#[path = "terminal/none.rs"]
mod none;
#[path = "terminal/pipeline.rs"]
mod pipeline;
#[path = "terminal/screen.rs"]
mod screen;
