"""Tricks of TDS, for sqlserver_proxy_test.py: each function sends what should write the mark, on a session that has no valid term. It may
end the connection."""
from tds_attacks import TEXTS
from tdsraw import ATTENTION, BATCH, BULK, END, IGNORE, RESET, RPC, call, headers, integer, nvarchar, packets, wide

INSERT = TEXTS["insert"]


def insert(mark):
    return INSERT.replace("%M", mark)


def message(kind, body, client, status=0):
    return packets(kind, headers(client.descriptor) + body, status)


def trick_two_at_once(client, mark):
    client.send(message(BATCH, wide("SET NOCOUNT ON"), client) + message(BATCH, wide(insert(mark)), client))
    client.answer()
    client.answer()


def trick_behind_an_attention(client, mark):
    client.send(packets(ATTENTION, b"") + message(BATCH, wide(insert(mark)), client))
    client.answer()
    client.answer()


def trick_attention_behind_it(client, mark):
    client.send(message(BATCH, wide(insert(mark)), client))
    client.answer()
    client.send(packets(ATTENTION, b""))
    client.answer()


def trick_attention_within(client, mark):
    whole = message(BATCH, wide("SET NOCOUNT ON"), client)
    client.send(whole + packets(ATTENTION, b"") + message(BATCH, wide(insert(mark)), client))
    for _ in range(3):
        client.answer()


def trick_prepare_then_execute(client, mark):
    prepared = client.rpc(call(11, integer("", None, True), nvarchar("", ""), nvarchar("", insert(mark)), integer("", 1)))
    client.rpc(call(12, integer("", (prepared.integers() or [1])[-1])))


def trick_text_as_a_transaction(client, mark):
    client.begin()
    client.batch("SET NOCOUNT ON")
    client.batch(insert(mark))
    client.commit()


def trick_set_a_stale_term(client, mark):
    client.batch("EXEC termgate.set_term N'attacked', 5")
    client.batch(insert(mark))


def trick_call_a_stale_term(client, mark):
    client.rpc(call("termgate.set_term", nvarchar("@scope", "attacked"), integer("@term", 5)))
    client.batch(insert(mark))


def trick_enter_by_hand(client, mark):
    client.batch(
        "DECLARE @p bigint = 1, @c bigint; EXEC termgate.gate_enter @scope = N'attacked', @term = 5, @secret = 0x01, @proof = @p OUTPUT,"
        " @code = @c OUTPUT"
    )
    client.batch(insert(mark))


def trick_declare_by_a_call(client, mark):
    client.rpc(call("sp_set_session_context", nvarchar("@key", "termgate.scope"), nvarchar("@value", "attacked")))
    client.rpc(call("sp_set_session_context", nvarchar("@key", "termgate.term"), nvarchar("@value", "5")))
    client.batch(insert(mark))


def trick_slowly(client, mark):
    for byte in message(BATCH, wide(insert(mark)), client):
        client.send(bytes([byte]))
    client.answer()


def trick_wrong_descriptor(client, mark):
    client.send(packets(BATCH, headers(77) + wide(insert(mark))))
    client.answer()


def trick_two_headers(client, mark):
    trace = b"\x1a\0\0\0\3\0" + bytes(20)
    body = headers()[4:] + trace
    client.send(packets(BATCH, (4 + len(body)).to_bytes(4, "little") + body + wide(insert(mark))))
    client.answer()


def trick_bulk(client, mark):
    client.batch("INSERT BULK dbo.spare (mark nvarchar(200))")
    client.send(packets(BULK, bulk_rows(mark)))
    client.answer()


def trick_insert_behind_no_exec(client, mark):
    client.batch("SET NOEXEC ON")
    client.batch("SET NOEXEC OFF")
    client.batch(insert(mark))


def text_parameter(kind, text, name=""):
    """A text as a parameter of another type than nvarchar."""
    head = bytes([len(name)]) + wide(name) + b"\0"
    narrow, data = text.encode("ascii"), wide(text)
    collation = b"\x09\x04\xd0\x00\x34"
    length = lambda value, size: len(value).to_bytes(size, "little")  # noqa: E731
    if kind == "varchar":
        return head + b"\xa7\x40\x1f" + collation + length(narrow, 2) + narrow
    if kind == "nchar":
        return head + b"\xef" + length(data, 2) + collation + length(data, 2) + data
    if kind == "ntext":
        return head + b"\x63\xff\xff\xff\x7f" + collation + length(data, 4) + data
    if kind == "text":
        return head + b"\x23\xff\xff\xff\x7f" + collation + length(narrow, 4) + narrow
    half = len(data) // 4 * 2
    chunks = b"".join(length(piece, 4) + piece for piece in (data[:half], data[half:]))
    return head + b"\xe7\xff\xff" + collation + b"\xfe" + 7 * b"\xff" + chunks + b"\0\0\0\0"


def trick_text_of_a_parameter(client, mark):
    client.rpc(call(10, nvarchar("", "EXEC (@t)"), nvarchar("", "@t nvarchar(400)"), nvarchar("@t", insert(mark))))


def trick_mark_as_a_parameter(client, mark):
    insert = "INSERT dbo.victim (mark) VALUES (@m)"
    client.rpc(call(10, nvarchar("", insert), nvarchar("", "@m nvarchar(400)"), nvarchar("@m", mark)))


def trick_two_texts(client, mark):
    client.rpc(call(10, nvarchar("", "SELECT 1"), nvarchar("", ""), nvarchar("@STMT", insert(mark))))
    client.rpc(call(10, nvarchar("", insert(mark)), nvarchar("", "")))


def trick_cursor_of_a_call(client, mark):
    text = nvarchar("", f"EXEC dbo.put N'{mark}'")
    client.rpc(call(2, integer("", None, True), text, integer("", 1, True), integer("", 1, True), integer("", 0, True)))


def trick_prepexec_a_read_then_a_write(client, mark):
    first = client.rpc(call(13, integer("", None, True), nvarchar("", ""), nvarchar("", "SELECT 1")))
    handle = (first.integers() or [1])[-1]
    client.rpc(call(13, integer("", handle, True), nvarchar("", ""), nvarchar("", insert(mark))))


def trick_execute_with_a_parameter(client, mark):
    insert = "INSERT dbo.victim (mark) VALUES (@m)"
    prepared = client.rpc(call(11, integer("", None, True), nvarchar("", "@m nvarchar(400)"), nvarchar("", insert), integer("", 1)))
    client.rpc(call(12, integer("", (prepared.integers() or [1])[-1]), nvarchar("@m", mark)))


def trick_reset_by_a_call(client, mark):
    client.rpc(call("sp_reset_connection"))
    client.batch(insert(mark))


def trick_reset_by_a_call_with_a_write(client, mark):
    client.rpc(call("sp_reset_connection") + b"\xff" + call(10, nvarchar("", insert(mark))))
    client.rpc(call(10, nvarchar("", insert(mark))))


def trick_reset_with_a_transaction(client, mark):
    client.manage(b"\5\0\0\0", RESET)
    client.batch(insert(mark))
    client.commit()


def trick_reset_at_every_second_message(client, mark):
    for number in range(6):
        client.batch("SET NOCOUNT ON", RESET if number % 2 else 0)
    client.batch(insert(mark))


def trick_commit_that_begins_the_next(client, mark):
    client.begin()
    client.manage(b"\7\0\0\1\0\0")
    client.batch(insert(mark))
    client.commit()


def trick_savepoint_of_the_driver(client, mark):
    client.begin()
    client.manage(b"\x09\0\2" + wide("s"))
    client.batch(insert(mark))
    client.commit()


def trick_write_behind_half_an_attention(client, mark):
    client.send(packets(ATTENTION, b"")[:4])
    client.send(packets(ATTENTION, b"")[4:] + message(BATCH, wide(insert(mark)), client))
    client.answer()
    client.answer()


def trick_three_attentions(client, mark):
    client.send(3 * packets(ATTENTION, b"") + message(BATCH, wide(insert(mark)), client))
    for _ in range(4):
        client.answer()


def trick_packets_of_one_letter(client, mark):
    client.send(packets(BATCH, headers(client.descriptor) + wide(insert(mark)), size=10))
    client.answer()


def trick_packets_that_cut_letters(client, mark):
    client.send(packets(BATCH, headers(client.descriptor) + wide(insert(mark)), size=11))
    client.answer()


def trick_an_empty_packet_last(client, mark):
    client.send(packets(BATCH, headers(client.descriptor) + wide(insert(mark)), end=0) + packets(BATCH, b""))
    client.answer()


def trick_headers_that_hide_a_text(client, mark):
    hidden = wide("SET NOCOUNT ON")
    body = headers()[4:] + (6 + len(hidden)).to_bytes(4, "little") + b"\3\0" + hidden
    client.send(packets(BATCH, (4 + len(body)).to_bytes(4, "little") + body + wide(insert(mark))))
    client.answer()


def trick_outstanding_requests(client, mark):
    client.send(packets(BATCH, headers()[:18] + b"\7\0\0\0" + wide(insert(mark))))
    client.answer()


def trick_a_long_name(client, mark):
    client.rpc(call("[" + "x" * 100 + "]", nvarchar("", mark)))
    client.rpc(call("put", nvarchar("", mark)))


def trick_a_stale_declaration_and_a_reset(client, mark):
    client.batch("EXEC sp_set_session_context N'termgate.scope', N'attacked'; EXEC sp_set_session_context N'termgate.term', N'5'")
    client.batch(insert(mark), RESET)


def trick_parse_only_and_back(client, mark):
    client.batch("SET PARSEONLY ON")
    client.batch("SET PARSEONLY OFF")
    client.batch(insert(mark))


def bulk_rows(mark):
    columns = b"\x81\1\0" + b"\0\0\0\0\5\0" + b"\xe7\x90\1\x09\4\xd0\0\x34" + b"\4" + wide("mark")
    return columns + b"\xd1" + (2 * len(mark)).to_bytes(2, "little") + wide(mark) + b"\xfd" + bytes(12)


def trick_bulk_behind_a_comment(client, mark):
    client.batch("/* */ INSERT /* */ BULK dbo.spare (mark nvarchar(200))")
    client.send(packets(BULK, bulk_rows(mark), size=40))
    client.answer()


def trick_bulk_in_a_transaction(client, mark):
    client.begin()
    trick_bulk(client, mark)
    client.commit()


# --- resets ---
def trick_two_calls_with_a_reset(client, mark):
    client.rpc(call(10, nvarchar("", "SET NOCOUNT ON")) + b"\xff" + call(10, nvarchar("", insert(mark))), RESET)


def prepared(client, text):
    """The handle of a statement."""
    answer = client.rpc(call(11, integer("", None, True), nvarchar("", ""), nvarchar("", text), integer("", 1)))
    return (answer.integers() or [1])[-1]


def trick_a_handle_after_a_reset(client, mark):
    prepared(client, insert(mark))
    client.batch("SET NOCOUNT ON", RESET)
    client.rpc(call(12, integer("", prepared(client, insert(mark)))))


def trick_a_handle_of_before_the_reset(client, mark):
    handle = prepared(client, insert(mark))
    client.rpc(call(12, integer("", handle)))
    client.rpc(call(12, integer("", handle)), RESET)


def trick_a_bulk_load_begun_twice(client, mark):
    client.batch("INSERT BULK dbo.spare (mark nvarchar(200))")
    client.batch("SET NOCOUNT ON", RESET)
    trick_bulk(client, mark)


def trick_a_reset_that_is_given_up(client, mark):
    client.send(packets(BATCH, headers(client.descriptor) + wide("SET NOCOUNT ON"), RESET, end=END | IGNORE))
    client.answer()
    client.batch(insert(mark))


def trick_a_reset_behind_a_transaction(client, mark):
    client.begin()
    client.batch("SET NOCOUNT ON", RESET)
    client.descriptor = 0
    client.batch(insert(mark))


# --- attentions, and messages that are given up ---
def trick_a_message_given_up_in_front(client, mark):
    client.send(packets(BATCH, headers(client.descriptor) + wide("SET NOCOUNT ON"), end=END | IGNORE))
    client.answer()
    client.batch(insert(mark))


def trick_an_attention_between_two_calls(client, mark):
    client.send(message(RPC, call(10, nvarchar("", "SET NOCOUNT ON")), client) + packets(ATTENTION, b""))
    client.answer()
    client.answer()
    client.rpc(call(10, nvarchar("", insert(mark))))


def trick_an_attention_behind_a_bulk_load(client, mark):
    trick_bulk(client, mark)
    client.send(packets(ATTENTION, b""))
    client.answer()


def trick_an_attention_within_a_split_batch(client, mark):
    whole = packets(BATCH, headers(client.descriptor) + wide(insert(mark)), size=40)
    client.send(whole[:40] + packets(ATTENTION, b"") + whole[40:])
    client.answer()
    client.answer()


def trick_a_reset_in_a_later_packet(client, mark):
    whole = bytearray(packets(BATCH, headers(client.descriptor) + wide(insert(mark)), size=60))
    whole[60 + 1] |= RESET
    client.send(bytes(whole))
    client.answer()


def trick_another_type_in_a_later_packet(client, mark):
    whole = bytearray(packets(BATCH, headers(client.descriptor) + wide(insert(mark)), size=60))
    whole[60] = RPC
    client.send(bytes(whole))
    client.answer()


# --- transactions ---
def trick_a_request_within_an_implicit_transaction(client, mark):
    client.batch("SET IMPLICIT_TRANSACTIONS ON")
    client.batch(insert(mark))
    client.begin()
    client.commit()
    client.batch("COMMIT TRAN")
    client.batch("SET IMPLICIT_TRANSACTIONS OFF")


def trick_a_request_within_a_transaction_of_a_text(client, mark):
    client.batch("BEGIN TRAN")
    client.begin()
    client.batch(insert(mark))
    client.commit()
    client.batch("COMMIT TRAN")


def trick_a_stale_term_within_a_transaction(client, mark):
    client.begin()
    client.batch("EXEC termgate.set_term N'attacked', 5")
    client.batch(insert(mark))
    client.commit()


def trick_a_rollback_that_begins_the_next(client, mark):
    client.begin()
    client.manage(b"\x08\0\0\1\0\0")
    client.batch(insert(mark))
    client.commit()


# --- databases and names ---
def trick_from_another_database(client, mark):
    client.batch("USE master")
    client.batch(f"INSERT {client.database}.dbo.victim (mark) VALUES (N'{mark}')")
    client.batch(f"USE {client.database}")


def trick_prepare_by_name(client, mark):
    text = nvarchar("", insert(mark))
    answer = client.rpc(call("sp_prepare", integer("", None, True), nvarchar("", ""), text, integer("", 1)))
    client.rpc(call("sp_execute", integer("", (answer.integers() or [1])[-1])))


def trick_prepexec_by_name(client, mark):
    client.rpc(call("sp_prepexec", integer("", None, True), nvarchar("", ""), nvarchar("", insert(mark))))


def trick_ten_calls(client, mark):
    quiet = call(10, nvarchar("", "SET NOCOUNT ON")) + b"\xff"
    client.rpc(9 * quiet + call(10, nvarchar("", insert(mark))))


def trick_a_handle_given_back_by_the_statement(client, mark):
    """Its own value, in the place of the handle of a write."""
    handle = prepared(client, insert(mark))
    read, declared = nvarchar("", f"SELECT @p = {handle}"), nvarchar("", "@p int OUTPUT")
    client.rpc(call(13, integer("", None, True), declared, read, integer("@p", None, True)))
    client.rpc(call(12, integer("", handle)))


# --- values ---
def trick_chunks_that_do_not_add_up(client, mark):
    whole = text_parameter("chunks", insert(mark))
    at = whole.index(b"\xfe" + 7 * b"\xff")
    client.rpc(call(10, whole[:at] + (10**9).to_bytes(8, "little") + whole[at + 8 :]))


def trick_a_null_of_chunks_in_front(client, mark):
    null = b"\0\0\xe7\xff\xff\x09\x04\xd0\x00\x34" + 8 * b"\xff"
    declared = nvarchar("", "@n nvarchar(max), @m nvarchar(400)")
    client.rpc(call(10, nvarchar("", INSERT.replace("N'%M'", "@m")), declared, null, nvarchar("", mark)))


def trick_rows_as_a_parameter(client, mark):
    head = bytes([2]) + wide("@t") + b"\0\xf3\0" + bytes([3]) + wide("dbo") + bytes([5]) + wide("marks")
    column = b"\1\0" + b"\0\0\0\0\x09\0\xe7\x90\1\x09\4\xd0\0\x34" + b"\0" + b"\0"
    row = b"\1" + (2 * len(mark)).to_bytes(2, "little") + wide(mark) + b"\0"
    text = nvarchar("", "INSERT dbo.victim (mark) SELECT mark FROM @t")
    client.rpc(call(10, text, nvarchar("", "@t dbo.marks READONLY"), head + column + row))


# --- versions ---
def with_version(version, separator=b"\xff"):
    def write(client, mark):
        other = client.again(version)
        try:
            other.rpc(call(10, nvarchar("", "SET NOCOUNT ON")) + separator + call(10, nvarchar("", insert(mark))))
        finally:
            other.close()

    return write


def trick_a_batch_of_tds_7_1(client, mark):
    other = client.again(0x71000001)
    try:
        other.batch(insert(mark))
    finally:
        other.close()


trick_calls_of_tds_7_1 = with_version(0x71000001, b"\x80")
trick_calls_of_tds_7_2 = with_version(0x72090002)
trick_calls_of_tds_7_3 = with_version(0x730B0003)

TRICKS = {name[6:].replace("_", " "): function for name, function in list(globals().items()) if name.startswith("trick_")} | {
    "reset": lambda client, mark: client.batch(insert(mark), RESET),
    "two calls": lambda client, mark: client.rpc(call(15, integer("", 1)) + b"\xff" + call(10, nvarchar("", insert(mark)))),
    "call behind settings": lambda client, mark: client.rpc(call("sp_server_info") + b"\xff" + call(10, nvarchar("", insert(mark)))),
    "procedure call": lambda client, mark: client.rpc(call("dbo.put", nvarchar("@mark", mark))),
    "procedure in brackets": lambda client, mark: client.rpc(call("[dbo].[put]", nvarchar("", mark))),
    "harmless name": lambda client, mark: client.rpc(call("dbo.sp_server_info", nvarchar("", mark))),
    "text as varchar": lambda client, mark: client.rpc(call(10, text_parameter("varchar", insert(mark)))),
    "text as nchar": lambda client, mark: client.rpc(call(10, text_parameter("nchar", insert(mark)))),
    "text as ntext": lambda client, mark: client.rpc(call(10, text_parameter("ntext", insert(mark)))),
    "text as text": lambda client, mark: client.rpc(call(10, text_parameter("text", insert(mark)))),
    "text in chunks": lambda client, mark: client.rpc(call(10, text_parameter("chunks", insert(mark)))),
    "named in capitals": lambda client, mark: client.rpc(call("SP_EXECUTESQL", nvarchar("@STMT", insert(mark)))),
    "executesql in brackets": lambda client, mark: client.rpc(call("[sys].[sp_executesql]", nvarchar("", insert(mark)))),
    "a harmless name with a dot in it": lambda client, mark: client.rpc(call("[sys.sp_server_info]", nvarchar("", mark))),
    "a procedure of a number": lambda client, mark: client.rpc(call("dbo.put;1", nvarchar("", mark))),
    "prepexecrpc": lambda client, mark: client.rpc(call(14, integer("", None, True), nvarchar("", "dbo.put"), nvarchar("@mark", mark))),
    "reset with a call": lambda client, mark: client.rpc(call(10, nvarchar("", insert(mark))), RESET),
    "a separator behind the last call": lambda client, mark: client.rpc(call(10, nvarchar("", insert(mark))) + b"\xff"),
    "options of a call": lambda client, mark: client.rpc(b"\xff\xff\x0a\0\3\0" + nvarchar("", insert(mark))),
    "no exec and back in one batch": lambda client, mark: client.batch("SET NOEXEC ON; SET NOEXEC OFF; " + insert(mark)),
    "a call of three parts": lambda client, mark: client.rpc(call(f"{client.database}.dbo.put", nvarchar("@mark", mark))),
    "a call without a schema": lambda client, mark: client.rpc(call(f"{client.database}..put", nvarchar("", mark))),
    "an end behind a write": lambda client, mark: client.rpc(call(10, nvarchar("", insert(mark))) + b"\xff" + call(15, integer("", 1))),
}
