# What an attacker tries inside, one word for each: its name, and whether it was done. Needs no module.
my $outside = shift;
sub attempt { my ($name, $done) = @_; print "$name=", ($done ? "done" : "no"), "\n"; }
sub appended { my ($path) = @_; open(my $file, ">>", $path) or return 0; print $file "x"; return close($file); }
sub made { my ($dir, $name) = @_; mkdir($dir); return appended("$dir/$name"); }
attempt("read-denied", do { open(my $file, "<", ".env") and <$file> =~ /SECRET/ });
attempt("truncate-denied", truncate(".env", 0));
attempt("write-outside", appended($outside));
attempt("truncate-outside", truncate($outside, 0));
attempt("write-protected", appended("infra/main.tf"));
attempt("make-protected", made(".vscode", "settings.json"));
attempt("make-protected-spelled", made(".IDEA", "workspace.xml"));
attempt("make-denied", made("made", ".env"));
sub heard { my ($address) = @_; socket(my $to, 2, 1, 6) or return 0; connect($to, pack("SnC4x8", 2, 8081, @$address)) or return 0;
    my $said = ""; sysread($to, $said, 5); return $said eq "hello"; }
attempt("reach-outside", heard([127, 0, 0, 1]) || heard([10, 9, 9, 9]));
attempt("write-inside", appended("src/lib.rs"));
