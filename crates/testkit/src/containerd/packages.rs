//! Debian packages without installing them: apt with a configuration of its own, in a directory of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use super::{Release, Unavailable};

/// Whose signature Debian's lists bear.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Where Debian is when the machine's own sources don't say.
const MIRROR: &str = "http://deb.debian.org/debian";

/// How often the list of packages is asked for again.
const UPDATES: usize = 2;

/// Longest time for one run of apt, in seconds.
const PATIENCE: &str = "300";

/// The directories below which these packages' files lie. Fetches those that are missing.
pub(super) fn unpacked<const N: usize>(
    cache: &Path,
    release: Release,
    packages: [&str; N],
) -> Result<[PathBuf; N], Unavailable> {
    let suite = cache.join(release.suite());
    let places = packages.map(|package| suite.join(package));
    if places.iter().all(|place| place.is_dir()) {
        return Ok(places);
    }
    let failed = |what: &str, error: std::io::Error| {
        Unavailable::because(format!("can't {what} below {}: {error}", cache.display()))
    };
    std::fs::create_dir_all(&suite).map_err(|e| failed("make directories", e))?;
    let lock = File::create(suite.join("lock")).map_err(|e| failed("make a lock file", e))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|e| failed("lock a file", e.into()))?;
    // Whoever held the lock may have fetched them.
    let missing: Vec<_> = packages.iter().zip(&places).filter(|(_, place)| !place.is_dir()).collect();
    if !missing.is_empty() {
        let work = tempfile::tempdir_in(cache).map_err(|e| failed("make directories", e))?;
        let apt = Apt::new(work.path(), release)?;
        apt.update()?;
        for (package, place) in missing {
            let files = work.path().join(package);
            let deb = apt.download(package)?;
            run(Command::new("dpkg-deb").arg("--extract").args([&deb, &files]), "unpack the package")?;
            std::fs::remove_file(deb).map_err(|e| failed("remove a file", e))?;
            std::fs::rename(&files, place).map_err(|e| failed("move files", e))?;
        }
    }
    Ok(places)
}

/// Whether a program can run here at all: a package of a newer Debian may want a newer C library.
pub(super) fn runs(program: &Path) -> Result<(), Unavailable> {
    run(Command::new(program).arg("--version"), &format!("run {}", program.display())).map(|_| ())
}

/// apt, kept away from the machine's state.
struct Apt<'a> {
    directory: &'a Path,
    release: Release,
}

impl<'a> Apt<'a> {
    fn new(directory: &'a Path, release: Release) -> Result<Self, Unavailable> {
        if !Path::new(KEYS).exists() {
            return Err(Unavailable::because("needs Debian's package debian-archive-keyring"));
        }
        let write = |name: &str, text: String| {
            std::fs::write(directory.join(name), text)
                .map_err(|e| Unavailable::because(format!("can't write {}: {e}", directory.join(name).display())))
        };
        for name in ["lists/partial", "archives/partial"] {
            std::fs::create_dir_all(directory.join(name))
                .map_err(|e| Unavailable::because(format!("can't make {}: {e}", directory.join(name).display())))?;
        }
        let own = run(Command::new("apt-config").arg("dump"), "ask apt for its configuration")?;
        write("status", String::new())?;
        write("sources.list", sources(&machine_sources(), release))?;
        write("apt.conf", configuration(directory, &own))?;
        Ok(Self { directory, release })
    }

    fn apt_get(&self) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", PATIENCE, "apt-get"]);
        command.env("APT_CONFIG", self.directory.join("apt.conf")).current_dir(self.directory);
        command
    }

    /// Mirrors fail now and then; a list that is missing would say later that there is no such package.
    fn update(&self) -> Result<(), Unavailable> {
        let what = format!("fetch the list of Debian {}", self.release.suite());
        let update = || run(self.apt_get().arg("update"), &what).map(|_| ());
        (0..UPDATES).fold(update(), |done, _| done.or_else(|_| update()))
    }

    fn download(&self, package: &str) -> Result<PathBuf, Unavailable> {
        let what = format!("fetch {package} of Debian {}", self.release.suite());
        run(self.apt_get().args(["download", package]), &what)?;
        let files = std::fs::read_dir(self.directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let deb = files.into_iter().find(|path| path.extension().is_some_and(|e| e == "deb"));
        deb.ok_or_else(|| Unavailable::because(format!("can't {what}: apt-get brought no file")))
    }
}

/// Runs a program to its end and returns its output.
fn run(command: &mut Command, what: &str) -> Result<String, Unavailable> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Unavailable::because(format!("can't {what}: {}: {e}", command.get_program().display())))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    Err(Unavailable::because(format!("can't {what}: {}: {last}", output.status)))
}

/// What the machine's own apt reads, both formats after one another.
fn machine_sources() -> String {
    let mut text = std::fs::read_to_string("/etc/apt/sources.list").unwrap_or_default();
    for entry in std::fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten() {
        text.push('\n');
        text.push_str(&std::fs::read_to_string(entry.path()).unwrap_or_default());
    }
    text
}

/// The list of one suite, from the mirror that the machine itself uses for Debian.
fn sources(machine: &str, release: Release) -> String {
    let words = machine.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    let mut uris = words.filter(|word| word.contains("://"));
    let mirror = uris.find(|uri| uri.trim_end_matches('/').ends_with("/debian")).unwrap_or(MIRROR);
    format!("deb [signed-by={KEYS}] {} {} main\n", mirror.trim_end_matches('/'), release.suite())
}

/// apt's configuration: everything below `directory`, and of the machine's own only how it fetches (proxies and such).
fn configuration(directory: &Path, own: &str) -> String {
    let place = |key: &str, name: &str| format!("{key} \"{}\";\n", directory.join(name).display());
    let mut text = String::from("Dir::Etc::parts \"/dev/null\";\nDir::Etc::main \"/dev/null\";\n");
    text += "Dir::Etc::sourceparts \"/dev/null\";\nDir::Etc::preferences \"/dev/null\";\n";
    text += "Dir::Etc::preferencesparts \"/dev/null\";\nAPT::Sandbox::User \"root\";\n";
    for line in own.lines().filter(|line| line.starts_with("Acquire::") && !line.ends_with("\"\";")) {
        text += line;
        text.push('\n');
    }
    text += "Acquire::Retries \"2\";\nAcquire::http::Timeout \"20\";\nAcquire::https::Timeout \"20\";\n";
    text += "APT::Update::Error-Mode \"any\";\n";
    text += "Acquire::Languages \"none\";\n";
    for target in ["Contents-deb", "DEP-11", "DEP-11-icons"] {
        text += &format!("Acquire::IndexTargets::deb::{target}::DefaultEnabled \"false\";\n");
    }
    text += &place("Dir::Etc::sourcelist", "sources.list");
    text += &place("Dir::State::lists", "lists");
    text += &place("Dir::State::status", "status");
    text += &place("Dir::Cache::archives", "archives");
    text += "Dir::Cache::pkgcache \"\";\nDir::Cache::srcpkgcache \"\";\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_own_mirror_is_used() {
        let line = |machine: &str| sources(machine, Release::Trixie);
        let keys = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
        let deb822 = "Types: deb\n# http://old.example/debian\nURIs: http://mirror.example/debian/\nSuites: bookworm\n";
        assert_eq!(line(deb822), format!("{keys} http://mirror.example/debian trixie main\n"));
        let one_line = "deb http://security.example/debian-security bookworm-security main\n\
                        deb [arch=amd64] http://mirror.example/debian bookworm main\n";
        assert_eq!(line(one_line), format!("{keys} http://mirror.example/debian trixie main\n"));
        assert_eq!(line(""), format!("{keys} http://deb.debian.org/debian trixie main\n"));
    }

    #[test]
    fn apt_is_kept_away_from_the_machine() {
        let own = "Dir \"/\";\nAcquire \"\";\nAcquire::http::Proxy \"http://proxy.example:3128\";\nAPT::Update::Post-Invoke:: \"rm x\";\n";
        let text = configuration(Path::new("/c"), own);
        assert!(text.contains("Acquire::http::Proxy \"http://proxy.example:3128\";"), "{text}");
        assert!(!text.contains("Post-Invoke") && !text.contains("Dir \"/\""), "{text}");
        for line in text.lines().filter(|line| line.starts_with("Dir::")) {
            assert!(line.contains("\"/c/") || line.contains("/dev/null") || line.contains("pkgcache"), "{line}");
        }
    }
}
