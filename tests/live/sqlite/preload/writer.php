<?php
// A program that knows nothing of terms: each line of its input is a statement, and it prints what came of it.
$connection = new PDO("sqlite:" . $argv[1]);
while (($line = fgets(STDIN)) !== false) {
    try {
        $connection->exec($line);
        echo "ok\n";
    } catch (PDOException $error) {
        echo $error->getMessage(), "\n";
    }
}
