//! A process that does not outlive its owner.

use std::process::Child;

#[derive(Debug)]
pub(super) struct Owned(pub(super) Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // Nothing that it holds is kept: no need to ask politely. Only one that has ended already can't be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
