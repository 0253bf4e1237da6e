//! Who a container's process is, by the image's own `/etc/passwd` and `/etc/group`.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use minke_core::runtime::{ContainerSecurity, RunAs};
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// A process's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Supplementary groups, the primary one among them.
    pub(super) groups: Vec<u32>,
    /// Home directory.
    pub(super) home: String,
}

/// An identity that can't be found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum IdentityError {
    /// No such name.
    #[error("the image's /etc/passwd has no user {0:?}; use a numeric runAsUser or a user that the image has")]
    NoUser(String),
    /// No such group.
    #[error("the image's /etc/group has no group {0:?}; use a numeric runAsGroup or a group that the image has")]
    NoGroup(String),
    /// An id that no process can have.
    #[error("user or group id {0} is out of range")]
    OutOfRange(u32),
}

/// Largest file that is read. Larger ones are cut: an image shall not fill this process's memory.
const LONGEST: u64 = 8 << 20;

/// A file of the image, read inside `root` whatever links lie on its way; empty where there is none.
pub(super) fn read_inside(root: impl AsFd, path: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
            return Ok(String::new());
        }
        Err(e) => return Err(e.into()),
    };
    if !file.metadata()?.is_file() {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct User<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

fn users(passwd: &str) -> impl Iterator<Item = User<'_>> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1).unwrap_or("");
        Some(User { name, uid, gid, home })
    })
}

/// Name, id and members of each group.
fn groups(group: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    group.lines().filter_map(|line| {
        let mut fields = line.split(':');
        Some((fields.next()?, fields.nth(1)?.parse().ok()?, fields.next().unwrap_or("")))
    })
}

/// The identity for these settings. Pure.
pub(super) fn identify(
    security: &ContainerSecurity,
    image_user: Option<&str>,
    passwd: &str,
    group: &str,
) -> Result<Identity, IdentityError> {
    let (user, image_group) = match &security.run_as {
        RunAs::Uid(uid) => (uid.to_string(), None),
        RunAs::Name(name) => (name.clone(), None),
        RunAs::Image => match image_user.unwrap_or("").split_once(':') {
            Some((user, group)) => (user.to_owned(), Some(group).filter(|g| !g.is_empty())),
            None => (image_user.unwrap_or("").to_owned(), None),
        },
    };
    let user = if user.is_empty() { "0".to_owned() } else { user };
    // A name that looks like a number is looked up as a name first, as the kernel's own tools do.
    let entry = match user.parse::<u32>() {
        Ok(uid) => users(passwd).find(|u| u.uid == uid),
        Err(_) => Some(users(passwd).find(|u| u.name == user).ok_or_else(|| IdentityError::NoUser(user.clone()))?),
    };
    let uid = entry.as_ref().map_or_else(|| user.parse().unwrap_or(0), |u| u.uid);
    let gid = match (security.run_as_group, image_group) {
        (Some(gid), _) => gid,
        (None, Some(name)) => match name.parse() {
            Ok(gid) => gid,
            Err(_) => groups(group)
                .find(|g| g.0 == name)
                .map(|g| g.1)
                .ok_or_else(|| IdentityError::NoGroup(name.to_owned()))?,
        },
        (None, None) => entry.as_ref().map_or(0, |u| u.gid),
    };
    let mut all = vec![gid];
    all.extend(&security.supplemental_groups);
    if let Some(entry) = entry.as_ref().filter(|_| !security.strict_supplemental_groups) {
        all.extend(groups(group).filter(|g| g.2.split(',').any(|m| m.trim() == entry.name)).map(|g| g.1));
    }
    let mut unique: Vec<u32> = Vec::with_capacity(all.len());
    for id in all {
        if !unique.contains(&id) {
            unique.push(id);
        }
    }
    for id in unique.iter().chain([&uid]) {
        if *id == u32::MAX {
            return Err(IdentityError::OutOfRange(*id));
        }
    }
    let home = entry.as_ref().map(|u| u.home).filter(|h| !h.is_empty()).unwrap_or("/").to_owned();
    Ok(Identity { uid, gid, groups: unique, home })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\nbroken\n1234:x:7:7::/:\n";
    const GROUP: &str = "root:x:0:\napp:x:1001:\nstaff:x:50:app,other\nlogs:x:60:other, app\n";

    fn who(security: &ContainerSecurity, image: Option<&str>) -> Result<(u32, u32, Vec<u32>, String), IdentityError> {
        identify(security, image, PASSWD, GROUP).map(|i| (i.uid, i.gid, i.groups, i.home))
    }

    #[test]
    fn user_and_groups_by_image_and_manifest() {
        let plain = ContainerSecurity::default();
        assert_eq!(who(&plain, None), Ok((0, 0, vec![0], "/root".into())));
        assert_eq!(who(&plain, Some("app")), Ok((1000, 1001, vec![1001, 50, 60], "/home/app".into())));
        assert_eq!(who(&plain, Some("app:staff")), Ok((1000, 50, vec![50, 60], "/home/app".into())));
        assert_eq!(who(&plain, Some("4242")), Ok((4242, 0, vec![0], "/".into())));
        assert_eq!(who(&plain, Some("4242:77")), Ok((4242, 77, vec![77], "/".into())));
        let manifest = ContainerSecurity {
            run_as: RunAs::Uid(1000),
            run_as_group: Some(5),
            supplemental_groups: vec![9, 5],
            ..ContainerSecurity::default()
        };
        assert_eq!(who(&manifest, Some("root")), Ok((1000, 5, vec![5, 9, 50, 60], "/home/app".into())));
        let strict = ContainerSecurity { strict_supplemental_groups: true, ..manifest };
        assert_eq!(who(&strict, None), Ok((1000, 5, vec![5, 9], "/home/app".into())));
    }

    #[test]
    fn unknown_names_are_errors_with_the_name() {
        let plain = ContainerSecurity::default();
        assert_eq!(who(&plain, Some("nobody")), Err(IdentityError::NoUser("nobody".into())));
        assert_eq!(who(&plain, Some("app:nogroup")), Err(IdentityError::NoGroup("nogroup".into())));
        assert_eq!(who(&plain, Some("4294967295")), Err(IdentityError::OutOfRange(u32::MAX)));
    }

    #[test]
    fn a_passwd_that_links_out_of_the_image_is_not_followed_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        std::fs::write(dir.path().join("secret"), "evil:x:0:0::/:").unwrap();
        std::os::unix::fs::symlink("../../secret", root.join("etc/passwd")).unwrap();
        let root = File::open(&root).unwrap();
        assert_eq!(read_inside(&root, "etc/passwd").unwrap(), "");
        assert_eq!(read_inside(&root, "etc/group").unwrap(), "");
    }

    proptest! {
        #[test]
        fn any_passwd_and_group_are_survived(passwd in "\\PC{0,120}", group in "\\PC{0,120}", user in "\\PC{0,12}") {
            let _ = identify(&ContainerSecurity::default(), Some(&user), &passwd, &group);
        }
    }
}
