//! Tests of volumes: what is planned, and what becomes of it on the real system.

mod bed;
mod files;
mod plans;
mod real;
