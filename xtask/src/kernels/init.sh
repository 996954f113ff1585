#!/bin/busybox sh
# The first process of a booted kernel: tries ringfence on each file system, as root and as a user, and prints one line for each.
# It runs twice: in the initial ram disk, which cannot be the old root of pivot_root, and then in a tmpfs.
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin HOME=/root
if [ "$1" != again ]; then
    mkdir -p /new /proc && mount -t proc proc /proc && mount -t tmpfs -o mode=0755,size=300m root /new
    cp -a /bin /etc /lib /lib64 /usr /init /modules /new/
    mkdir -p /new/proc /new/sys /new/dev /new/tmp /new/root /new/home/u /new/p /new/outside /new/run /new/var
    umount /proc
    exec switch_root /new /init again
fi
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs -o mode=1777 tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
exec </dev/null
for round in 1 2 3; do for module in /modules/*; do [ -e "$module" ] && insmod "$module" 2>/dev/null; done; done
sysctl -w kernel.unprivileged_userns_clone=1 >/dev/null 2>&1
chown u:u /home/u; mkdir -p /outside; chmod 777 /outside
echo "KERNEL|$(uname -r)"

printf '#!/bin/sh\nexec perl -e '"'"'$( = $) = "1000 1000"; $< = $> = 1000; exec @ARGV'"'"' -- "$@"\n' >/bin/as_user; chmod 755 /bin/as_user

# A server outside, at the loopback and at another address of this machine.
ip link set lo up; ip addr add 10.9.9.9/32 dev lo
perl -e 'socket(S,2,1,6); bind(S,pack("Snx12",2,8081)) or die; listen(S,9); while(accept(C,S)) { syswrite(C,"hello"); close(C) }' &
# Without a fence it is reached: otherwise no attack could succeed.
for second in 1 2 3 4 5 6 7 8 9 10; do [ "$(nc -w 5 10.9.9.9 8081 </dev/null 2>/dev/null)" = hello ] && break; sleep 1; done
echo "CONTROL|$(nc -w 5 127.0.0.1 8081 </dev/null)|$(nc -w 5 10.9.9.9 8081 </dev/null)"

try() { # FS WHO BACKEND
    fs=$1 who=$2 backend=$3 project=/p/$1/$2 out=/outside/$1-$2
    [ "$who" = root ] && home=/root || home=/home/u
    rm -rf $project; mkdir -p $project; [ "$fs" = casefold ] && chattr +F $project
    mkdir -p $project/infra $project/src; echo code >$project/src/lib.rs; echo SECRET >$project/.env; echo old >$project/infra/main.tf; echo outside >$out; chmod 666 $out
    printf 'version = 1\n[files]\ndeny = ["**/.env"]\nprotect = ["infra"]\n' >$project/ringfence.toml
    [ "$fs" = vfat ] || chown -R $who $project
    cd $project
    as="as_user"; [ "$who" = root ] && as=env
    rung=; [ -n "$backend" ] && rung="--backend $backend"
    HOME=$home timeout 100 $as /bin/ringfence run --receipt $rung -- /bin/perl /usr/bin/attack.pl $out >/tmp/done 2>/tmp/said
    code=$?
    ran=$(sed -n 's/^ringfence: receipt (\(.*\))$/\1/p' /tmp/said | tr '\n' ' ')
    lost=$(sed -n 's/^  NOT HELD .*\[\([a-z-]*\)\]:.*/\1/p' /tmp/said | sort -u | tr '\n' ' ')
    grep -q 'project belongs to another user' /tmp/said && lost="$lost project-not-writable"
    after=same; [ "$(cat .env)" = SECRET ] && [ "$(cat $out)" = outside ] || after=CHANGED
    [ $code = 0 ] || sed 's/^/SAID|/' /tmp/said | tail -4
    echo "ROW|$fs|$who|${backend:-auto}|$code|$ran|$lost|$(cat /tmp/done | tr '\n' ' ')|$after"
    cd /
}
disk() { # FS DEVICE TYPE OPTIONS
    mkdir -p /p/$1; mount -t $3 -o $4 $2 /p/$1 || { echo "SKIP|$1|this kernel cannot mount it"; return; }
    for who in root u; do
        as="as_user"; home=/home/u; [ $who = root ] && as=env home=/root
        (cd /p/$1 && HOME=$home timeout 100 $as /bin/ringfence doctor --json >/tmp/doctor.json 2>/tmp/said
        echo "DOCTOR|$1|$who|$(perl /usr/bin/doctor.pl </tmp/doctor.json)")
        for backend in "" $BACKENDS; do try $1 $who "$backend"; done
    done
}
for second in 1 2 3 4 5 6 7 8 9 10; do [ -e /dev/vdc ] || [ -e /dev/ubdc ] || sleep 1; done
set -- $(ls /dev/vda /dev/vdb /dev/vdc /dev/ubda /dev/ubdb /dev/ubdc 2>/dev/null)
BACKENDS="native bwrap landlock"
disk ext4 "$1" ext4 rw
BACKENDS=
disk casefold "$2" ext4 rw
disk vfat "$3" vfat uid=1000,gid=1000,umask=0
echo END
sync
poweroff -f
