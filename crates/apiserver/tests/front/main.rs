//! The server over HTTPS, with clients that nobody here has written and with clients that mean no good.
#![cfg(test)]

mod accounts;
mod certificates;
mod conversations;
mod definitions;
mod differential;
mod hostile;
mod kube_rs;
mod kubectl;
mod nodes;
mod parts;
mod runner_sets;
mod server;
