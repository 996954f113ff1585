# What the table needs of `doctor --json`: the backend of the verdict, what works, and whether everything does.
undef $/;
my $said = <STDIN>;
print $said =~ /"words":\s*"([^:"]*)/ ? $1 : "?", "|";
while ($said =~ /"name":\s*"(native|bwrap|landlock)",\s*"works":\s*(\w+)/g) { print "$1=$2 "; }
print "|", $said =~ /"full":\s*(\w+)/ ? $1 : "?", "\n";
