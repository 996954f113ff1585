//! A fence that a container engine makes: which engine is here, what it is told, and what runs first in the container.
//!
//! The engine is believed nothing. Before any program runs, ringfence itself, as the first process of the container, compares
//! every mount with what was asked for, by device and inode, and looks for mounts, interfaces and rights that nobody asked
//! for. What differs ends the start.

mod arrive;
mod check;
mod contained;
mod engine;
mod environment;
mod glue;
mod image;
mod loader;
mod orders;
mod pod;
mod render;
mod sweep;

pub use arrive::{COMMAND, run};
pub(crate) use arrive::{finding, hand_over};
pub(crate) use contained::{Contained, Operator, Wanted, without_root};
pub use contained::{InContainer, NoContainer};
pub use engine::{EngineHere, NoEngine};
pub use environment::ContainerEnvironment;
pub(crate) use glue::{can_say, counts_alone, operator, sayable, withheld, without_proc};
pub use image::HOST;
pub(crate) use orders::Orders;
pub use pod::{DescribedPod, RenderedPod, render_pod};
pub use render::{Described, Rendered, render, usual, written};
pub use sweep::{Swept, note_use, sweep};
