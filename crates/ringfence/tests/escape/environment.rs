//! A4: variables of the caller that carry secrets or lead out of the fence.

use super::row::{ENVIRONMENT, Row, SECRET, Sign, python};
use super::suite::{Topic, tests};

tests!(TOPIC);

/// A variable that does not come along.
const fn variable(says: &'static str, variables: &'static [(&'static str, &'static str)]) -> Row {
    python(ENVIRONMENT, says, "print(os.environ)", Sign::Secret).variables(variables)
}

pub(super) static TOPIC: Topic = Topic {
    opened: None,
    rows: &[
        variable(
            "keys of a cloud do not come along",
            &[("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_SESSION_TOKEN", SECRET)],
        ),
        variable(
            "credentials of other clouds do not come along",
            &[("GCP_KEY", SECRET), ("AZURE_CLIENT_SECRET", SECRET)],
        ),
        variable(
            "tokens do not come along",
            &[("GITHUB_TOKEN", SECRET), ("NPM_TOKEN", SECRET), ("MY_OWN_TOKEN", SECRET)],
        ),
        variable("keys and passwords do not come along", &[("OPENAI_API_KEY", SECRET), ("PGPASSWORD", SECRET)]),
        variable("addresses of databases do not come along (M8)", &[("DATABASE_URL", SECRET), ("REDIS_URL", SECRET)]),
        variable("a variable that nobody knows does not come along", &[("SOMETHING_ELSE", SECRET)]),
        variable("a variable whose name is no word does not come along", &[("a b.c-d", SECRET)]),
        variable("the way to the agent of keys does not come along", &[("SSH_AUTH_SOCK", "$home/$SECRET")]),
        variable(
            "the way to the session's bus does not come along",
            &[("DBUS_SESSION_BUS_ADDRESS", "unix:path=$home/$SECRET")],
        ),
        variable("the way to a container daemon does not come along", &[("DOCKER_HOST", "unix://$home/$SECRET")]),
        variable("the way to a cluster does not come along", &[("KUBECONFIG", "$home/$SECRET")]),
        variable("what a shell runs first does not come along", &[("BASH_ENV", "$home/$SECRET")]),
        variable("libraries to load first do not come along", &[("LD_LIBRARY_PATH", "$home/$SECRET")]),
        variable("modules of others do not come along", &[("PYTHONPATH", "$home/$SECRET"), ("NODE_OPTIONS", SECRET)]),
        variable("git's settings do not come along", &[("GIT_CONFIG_PARAMETERS", SECRET), ("GIT_SSH_COMMAND", SECRET)]),
        variable("a harmless variable that leads outside does not come along", &[("EDITOR", "$home/$SECRET")]),
        python(
            ENVIRONMENT,
            "no process that can be seen shows a variable of the caller",
            "
            for name in os.listdir('/proc'):
                for file in ('environ', 'task/' + name + '/environ'):
                    try:
                        show(f'/proc/{name}/{file}')
                    except OSError:
                        pass
            ",
            Sign::Secret,
        )
        .variables(&[("ANOTHER_SECRET", SECRET)]),
        python(
            ENVIRONMENT,
            "memory of the process itself holds no variable of the caller",
            "
            memory = os.open('/proc/self/mem', os.O_RDONLY)
            # Put together here, so that only what was handed in is found.
            wanted = b'secret-' + str(ROW).encode() + b'-'
            for area in open('/proc/self/maps'):
                begin, end = (int(number, 16) for number in area.split()[0].split('-'))
                if '[stack]' not in area or ' r' not in area:
                    continue
                found = re.search(wanted + b'[A-Za-z0-9]+', os.pread(memory, end - begin, begin))
                print(found and found[0].decode())
            ",
            Sign::Secret,
        )
        .variables(&[("YET_ANOTHER_SECRET", SECRET)]),
    ],
};
