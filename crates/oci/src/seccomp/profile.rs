//! A profile as data, before names become numbers.

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// It is made.
    Allow,
    /// It is made and logged by the kernel.
    Log,
    /// It fails with this error number.
    Errno(u16),
    /// The process gets SIGSYS.
    Trap,
    /// The thread ends.
    KillThread,
    /// The process ends.
    KillProcess,
    /// A tracer decides; without one the call fails with ENOSYS.
    Trace(u16),
}

impl Action {
    /// The value that a filter returns for it (`SECCOMP_RET_*`).
    #[must_use]
    pub(crate) const fn value(self) -> u32 {
        match self {
            Self::KillProcess => 0x8000_0000,
            Self::KillThread => 0x0000_0000,
            Self::Trap => 0x0003_0000,
            Self::Errno(number) => 0x0005_0000 | number as u32,
            Self::Trace(number) => 0x7ff0_0000 | number as u32,
            Self::Log => 0x7ffc_0000,
            Self::Allow => 0x7fff_0000,
        }
    }
}

/// How an argument is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Not equal.
    Ne,
    /// Less than.
    Lt,
    /// Less than or equal.
    Le,
    /// Equal.
    Eq,
    /// Greater than or equal.
    Ge,
    /// Greater than.
    Gt,
    /// Equal after a mask is applied.
    MaskedEq {
        /// The mask.
        mask: u64,
    },
}

/// A condition on one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArgTest {
    /// 0 to 5.
    pub(crate) index: u8,
    /// Compared with this.
    pub(crate) value: u64,
    /// In this way; all 64 bits, unsigned.
    pub(crate) comparison: Comparison,
}

/// What happens to calls of these names if all conditions hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Names; those that this kernel's ABI does not have mean nothing.
    pub(crate) names: Vec<String>,
    /// What happens.
    pub(crate) action: Action,
    /// Conditions; none: always.
    pub(crate) args: Vec<ArgTest>,
}

/// A whole profile. A later rule for a call stands beside an earlier one: the first whose conditions hold decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile {
    /// What happens to calls that no rule names.
    pub(crate) default: Action,
    /// Rules.
    pub(crate) rules: Vec<Rule>,
    /// Flags of seccomp(2).
    pub(crate) flags: u32,
}

/// A profile that can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SeccompError {
    /// The file can't be read.
    #[error("can't read seccomp profile {path}")]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not JSON of the known shape.
    #[error("seccomp profile {path} is not valid")]
    Json {
        /// The file.
        path: std::path::PathBuf,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// A word that has no meaning here.
    #[error("seccomp profile: {what} {word:?} is not known")]
    Unknown {
        /// "action", "operator", "flag", "architecture".
        what: &'static str,
        /// The word.
        word: String,
    },
    /// Something that this runtime can't do.
    #[error("seccomp profile: {what} is not supported")]
    Unsupported {
        /// What.
        what: String,
    },
    /// An argument index beyond the sixth.
    #[error("seccomp profile: a system call has 6 arguments, there is no index {index}")]
    ArgIndex {
        /// The index.
        index: u64,
    },
    /// More than the kernel takes.
    #[error("the seccomp filter has {length} instructions and the kernel takes 4096; simplify the profile")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// This machine's architecture has no table.
    #[error("seccomp filters are not supported on {arch}; only an unconfined or privileged container can run here")]
    Architecture {
        /// The machine's.
        arch: &'static str,
    },
    /// The kernel refuses the filter.
    #[error("the kernel refuses the seccomp filter")]
    Install(#[source] std::io::Error),
}
