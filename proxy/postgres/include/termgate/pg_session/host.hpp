// The names of proxy/conversation/ that this folder uses, without the namespace.
#pragma once

#include <termgate/conversation/admission.hpp>
#include <termgate/conversation/conversation.hpp>
#include <termgate/conversation/outbox.hpp>
#include <termgate/conversation/session_host.hpp>

namespace termgate::pg_session {

using conversation::Action;
using conversation::Admission;
using conversation::Conversation;
using conversation::Enforce;
using conversation::Incident;
using conversation::Instant;
using conversation::LoginRequest;
using conversation::OnStale;
using conversation::Outbox;
using conversation::SeatOffer;
using conversation::SessionHost;
using conversation::TermSource;
using conversation::WithoutTerm;

using conversation::Admitted;
using conversation::ClientBytes;
using conversation::ClientGone;
using conversation::ClientTls;
using conversation::Cut;
using conversation::Drain;
using conversation::FenceSeen;
using conversation::GateWanted;
using conversation::ServerBytes;
using conversation::ServerConnected;
using conversation::ServerLost;
using conversation::ServerTls;
using conversation::Tick;

}  // namespace termgate::pg_session
