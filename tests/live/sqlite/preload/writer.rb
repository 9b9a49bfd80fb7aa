# A program that knows nothing of terms: each line of its input is a statement, and it prints what came of it.
require "sqlite3"
$stdout.sync = true
connection = SQLite3::Database.new(ARGV[0])
while (line = $stdin.gets)
  begin
    puts(["ok", *connection.execute(line).map(&:to_s)].join(" "))
  rescue SQLite3::Exception => error
    puts error.message
  end
end
