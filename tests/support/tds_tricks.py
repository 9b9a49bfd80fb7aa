"""Tricks of TDS, for sqlserver_proxy_test.py: each function sends what should write the mark, on a session that has no valid term. It may
end the connection."""
from tds_attacks import TEXTS
from tdsraw import ATTENTION, BATCH, BULK, END, IGNORE, RESET, call, headers, integer, nvarchar, packets, wide

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


def trick_attention_within(client, mark):
    whole = message(BATCH, wide("SET NOCOUNT ON"), client)
    client.send(whole + packets(ATTENTION, b"") + message(BATCH, wide(insert(mark)), client))
    for _ in range(3):
        client.answer()


def trick_prepare_then_execute(client, mark):
    prepared = client.rpc(call(11, integer("", None, True), nvarchar("", ""), nvarchar("", insert(mark)), integer("", 1)))
    client.rpc(call(12, integer("", (prepared.integers() or [1])[-1])))


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


def trick_wrong_descriptor(client, mark):
    client.send(packets(BATCH, headers(77) + wide(insert(mark))))
    client.answer()


def trick_bulk(client, mark):
    client.batch("INSERT BULK dbo.spare (mark nvarchar(200))")
    client.send(packets(BULK, bulk_rows(mark)))
    client.answer()


def trick_reset_by_a_call(client, mark):
    client.rpc(call("sp_reset_connection"))
    client.batch(insert(mark))


def trick_reset_by_a_call_with_a_write(client, mark):
    client.rpc(call("sp_reset_connection") + b"\xff" + call(10, nvarchar("", insert(mark))))
    client.rpc(call(10, nvarchar("", insert(mark))))


def trick_commit_that_begins_the_next(client, mark):
    client.begin()
    client.manage(b"\7\0\0\1\0\0")
    client.batch(insert(mark))
    client.commit()


def trick_headers_that_hide_a_text(client, mark):
    hidden = wide("SET NOCOUNT ON")
    body = headers()[4:] + (6 + len(hidden)).to_bytes(4, "little") + b"\3\0" + hidden
    client.send(packets(BATCH, (4 + len(body)).to_bytes(4, "little") + body + wide(insert(mark))))
    client.answer()


def trick_a_stale_declaration_and_a_reset(client, mark):
    client.batch("EXEC sp_set_session_context N'termgate.scope', N'attacked'; EXEC sp_set_session_context N'termgate.term', N'5'")
    client.batch(insert(mark), RESET)


def bulk_rows(mark):
    columns = b"\x81\1\0" + b"\0\0\0\0\5\0" + b"\xe7\x90\1\x09\4\xd0\0\x34" + b"\4" + wide("mark")
    return columns + b"\xd1" + (2 * len(mark)).to_bytes(2, "little") + wide(mark) + b"\xfd" + bytes(12)


# --- resets ---
def prepared(client, text):
    """The handle of a statement."""
    answer = client.rpc(call(11, integer("", None, True), nvarchar("", ""), nvarchar("", text), integer("", 1)))
    return (answer.integers() or [1])[-1]


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


# --- attentions, and messages that are given up ---
def trick_a_message_given_up_in_front(client, mark):
    client.send(packets(BATCH, headers(client.descriptor) + wide("SET NOCOUNT ON"), end=END | IGNORE))
    client.answer()
    client.batch(insert(mark))


# --- transactions ---
def trick_a_request_within_an_implicit_transaction(client, mark):
    client.batch("SET IMPLICIT_TRANSACTIONS ON")
    client.batch(insert(mark))
    client.begin()
    client.commit()
    client.batch("COMMIT TRAN")
    client.batch("SET IMPLICIT_TRANSACTIONS OFF")


# --- databases and names ---
def trick_from_another_database(client, mark):
    client.batch("USE master")
    client.batch(f"INSERT {client.database}.dbo.victim (mark) VALUES (N'{mark}')")
    client.batch(f"USE {client.database}")


def trick_prepexec_by_name(client, mark):
    client.rpc(call("sp_prepexec", integer("", None, True), nvarchar("", ""), nvarchar("", insert(mark))))


def trick_a_handle_given_back_by_the_statement(client, mark):
    """Its own value, in the place of the handle of a write."""
    handle = prepared(client, insert(mark))
    read, declared = nvarchar("", f"SELECT @p = {handle}"), nvarchar("", "@p int OUTPUT")
    client.rpc(call(13, integer("", None, True), declared, read, integer("@p", None, True)))
    client.rpc(call(12, integer("", handle)))


# --- values ---
def trick_rows_as_a_parameter(client, mark):
    head = bytes([2]) + wide("@t") + b"\0\xf3\0" + bytes([3]) + wide("dbo") + bytes([5]) + wide("marks")
    column = b"\1\0" + b"\0\0\0\0\x09\0\xe7\x90\1\x09\4\xd0\0\x34" + b"\0" + b"\0"
    row = b"\1" + (2 * len(mark)).to_bytes(2, "little") + wide(mark) + b"\0"
    text = nvarchar("", "INSERT dbo.victim (mark) SELECT mark FROM @t")
    client.rpc(call(10, text, nvarchar("", "@t dbo.marks READONLY"), head + column + row))


TRICKS = {name[6:].replace("_", " "): function for name, function in list(globals().items()) if name.startswith("trick_")} | {
    "reset": lambda client, mark: client.batch(insert(mark), RESET),
    "two calls": lambda client, mark: client.rpc(call(15, integer("", 1)) + b"\xff" + call(10, nvarchar("", insert(mark)))),
    "call behind settings": lambda client, mark: client.rpc(call("sp_server_info") + b"\xff" + call(10, nvarchar("", insert(mark)))),
    "procedure call": lambda client, mark: client.rpc(call("dbo.put", nvarchar("@mark", mark))),
    "harmless name": lambda client, mark: client.rpc(call("dbo.sp_server_info", nvarchar("", mark))),
    "named in capitals": lambda client, mark: client.rpc(call("SP_EXECUTESQL", nvarchar("@STMT", insert(mark)))),
    "executesql in brackets": lambda client, mark: client.rpc(call("[sys].[sp_executesql]", nvarchar("", insert(mark)))),
    "a harmless name with a dot in it": lambda client, mark: client.rpc(call("[sys.sp_server_info]", nvarchar("", mark))),
    "a procedure of a number": lambda client, mark: client.rpc(call("dbo.put;1", nvarchar("", mark))),
    "prepexecrpc": lambda client, mark: client.rpc(call(14, integer("", None, True), nvarchar("", "dbo.put"), nvarchar("@mark", mark))),
    "reset with a call": lambda client, mark: client.rpc(call(10, nvarchar("", insert(mark))), RESET),
    "a call of three parts": lambda client, mark: client.rpc(call(f"{client.database}.dbo.put", nvarchar("@mark", mark))),
}
