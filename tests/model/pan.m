#define rand	pan_rand
#define pthread_equal(a,b)	((a)==(b))
#if defined(HAS_CODE) && defined(VERBOSE)
	#ifdef BFS_PAR
		bfs_printf("Pr: %d Tr: %d\n", II, t->forw);
	#else
		cpu_printf("Pr: %d Tr: %d\n", II, t->forw);
	#endif
#endif
	switch (t->forw) {
	default: Uerror("bad forward move");
	case 0:	/* if without executable clauses */
		continue;
	case 1: /* generic 'goto' or 'skip' */
		IfNotBlocked
		_m = 3; goto P999;
	case 2: /* generic 'else' */
		IfNotBlocked
		if (trpt->o_pm&1) continue;
		_m = 3; goto P999;

		 /* PROC :init: */
	case 3: // STATE 1 - fence.pml:305 - [n = 0] (0:0:1 - 1)
		IfNotBlocked
		reached[2][1] = 1;
		(trpt+1)->bup.oval = ((int)((P2 *)_this)->_3_29_n);
		((P2 *)_this)->_3_29_n = 0;
#ifdef VAR_RANGES
		logval(":init::n", ((int)((P2 *)_this)->_3_29_n));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 4: // STATE 2 - fence.pml:305 - [((n<2))] (0:0:0 - 1)
		IfNotBlocked
		reached[2][2] = 1;
		if (!((((int)((P2 *)_this)->_3_29_n)<2)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 5: // STATE 3 - fence.pml:305 - [(run leader(n))] (0:0:0 - 1)
		IfNotBlocked
		reached[2][3] = 1;
		if (!(addproc(II, 1, 0, ((int)((P2 *)_this)->_3_29_n))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 6: // STATE 4 - fence.pml:305 - [n = (n+1)] (0:0:1 - 1)
		IfNotBlocked
		reached[2][4] = 1;
		(trpt+1)->bup.oval = ((int)((P2 *)_this)->_3_29_n);
		((P2 *)_this)->_3_29_n = (((int)((P2 *)_this)->_3_29_n)+1);
#ifdef VAR_RANGES
		logval(":init::n", ((int)((P2 *)_this)->_3_29_n));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 7: // STATE 10 - fence.pml:306 - [((1>0))] (0:0:0 - 1)
		IfNotBlocked
		reached[2][10] = 1;
		if (!((1>0)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 8: // STATE 11 - fence.pml:306 - [(run failing_over())] (0:0:0 - 1)
		IfNotBlocked
		reached[2][11] = 1;
		if (!(addproc(II, 1, 1, 0)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 9: // STATE 16 - fence.pml:308 - [-end-] (0:0:0 - 1)
		IfNotBlocked
		reached[2][16] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */

		 /* PROC failing_over */
	case 10: // STATE 1 - fence.pml:283 - [((failovers<1))] (29:0:2 - 1)
		IfNotBlocked
		reached[1][1] = 1;
		if (!((((int)now.failovers)<1)))
			continue;
		/* merge: failovers = (failovers+1)(29, 2, 29) */
		reached[1][2] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.failovers);
		now.failovers = (((int)now.failovers)+1);
#ifdef VAR_RANGES
		logval("failovers", ((int)now.failovers));
#endif
		;
		/* merge: who = 0(29, 3, 29) */
		reached[1][3] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P1 *)_this)->who);
		((P1 *)_this)->who = 0;
#ifdef VAR_RANGES
		logval("failing_over:who", ((int)((P1 *)_this)->who));
#endif
		;
		/* merge: .(goto)(0, 30, 29) */
		reached[1][30] = 1;
		;
		_m = 3; goto P999; /* 3 */
	case 11: // STATE 4 - fence.pml:286 - [((who<2))] (25:0:1 - 1)
		IfNotBlocked
		reached[1][4] = 1;
		if (!((((int)((P1 *)_this)->who)<2)))
			continue;
		/* merge: ended[who] = 1(0, 5, 25) */
		reached[1][5] = 1;
		(trpt+1)->bup.oval = ((int)now.ended[ Index(((int)((P1 *)_this)->who), 2) ]);
		now.ended[ Index(((P1 *)_this)->who, 2) ] = 1;
#ifdef VAR_RANGES
		logval("ended[failing_over:who]", ((int)now.ended[ Index(((int)((P1 *)_this)->who), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 12: // STATE 6 - fence.pml:72 - [((each<2))] (11:0:1 - 1)
		IfNotBlocked
		reached[1][6] = 1;
		if (!((((int)now.each)<2)))
			continue;
		/* merge: shared[each] = (shared[each]&~((1<<who)))(0, 7, 11) */
		reached[1][7] = 1;
		(trpt+1)->bup.oval = ((int)now.shared[ Index(((int)now.each), 2) ]);
		now.shared[ Index(now.each, 2) ] = (((int)now.shared[ Index(((int)now.each), 2) ])& ~((1<<((int)((P1 *)_this)->who))));
#ifdef VAR_RANGES
		logval("shared[each]", ((int)now.shared[ Index(((int)now.each), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 13: // STATE 8 - fence.pml:74 - [((exclusive[each]==(who+1)))] (16:0:1 - 1)
		IfNotBlocked
		reached[1][8] = 1;
		if (!((((int)now.exclusive[ Index(((int)now.each), 2) ])==(((int)((P1 *)_this)->who)+1))))
			continue;
		/* merge: exclusive[each] = 0(0, 9, 16) */
		reached[1][9] = 1;
		(trpt+1)->bup.oval = ((int)now.exclusive[ Index(((int)now.each), 2) ]);
		now.exclusive[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("exclusive[each]", ((int)now.exclusive[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 12, 16) */
		reached[1][12] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 14: // STATE 13 - fence.pml:75 - [((turnstile[each]==(who+1)))] (21:0:2 - 1)
		IfNotBlocked
		reached[1][13] = 1;
		if (!((((int)now.turnstile[ Index(((int)now.each), 2) ])==(((int)((P1 *)_this)->who)+1))))
			continue;
		/* merge: turnstile[each] = 0(21, 14, 21) */
		reached[1][14] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.turnstile[ Index(((int)now.each), 2) ]);
		now.turnstile[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("turnstile[each]", ((int)now.turnstile[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(21, 17, 21) */
		reached[1][17] = 1;
		;
		/* merge: each = (each+1)(21, 18, 21) */
		reached[1][18] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 22, 21) */
		reached[1][22] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 15: // STATE 18 - fence.pml:76 - [each = (each+1)] (0:21:1 - 3)
		IfNotBlocked
		reached[1][18] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 22, 21) */
		reached[1][22] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 16: // STATE 24 - fence.pml:79 - [each = 0] (0:29:2 - 3)
		IfNotBlocked
		reached[1][24] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.each);
		now.each = 0;
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: who = (who+1)(29, 26, 29) */
		reached[1][26] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P1 *)_this)->who);
		((P1 *)_this)->who = (((int)((P1 *)_this)->who)+1);
#ifdef VAR_RANGES
		logval("failing_over:who", ((int)((P1 *)_this)->who));
#endif
		;
		/* merge: .(goto)(0, 30, 29) */
		reached[1][30] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 17: // STATE 32 - fence.pml:287 - [each = 0] (0:42:1 - 3)
		IfNotBlocked
		reached[1][32] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = 0;
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 43, 42) */
		reached[1][43] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 18: // STATE 33 - fence.pml:289 - [((each<2))] (0:0:0 - 1)
		IfNotBlocked
		reached[1][33] = 1;
		if (!((((int)now.each)<2)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 19: // STATE 34 - fence.pml:290 - [fence[each] = before[each]] (0:42:3 - 1)
		IfNotBlocked
		reached[1][34] = 1;
		(trpt+1)->bup.ovals = grab_ints(3);
		(trpt+1)->bup.ovals[0] = ((int)now.fence[ Index(((int)now.each), 2) ]);
		now.fence[ Index(now.each, 2) ] = ((int)now.before[ Index(((int)now.each), 2) ]);
#ifdef VAR_RANGES
		logval("fence[each]", ((int)now.fence[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(42, 37, 42) */
		reached[1][37] = 1;
		;
		/* merge: doubt[each] = 1(42, 38, 42) */
		reached[1][38] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.doubt[ Index(((int)now.each), 2) ]);
		now.doubt[ Index(now.each, 2) ] = 1;
#ifdef VAR_RANGES
		logval("doubt[each]", ((int)now.doubt[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: each = (each+1)(42, 39, 42) */
		reached[1][39] = 1;
		(trpt+1)->bup.ovals[2] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 43, 42) */
		reached[1][43] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 20: // STATE 35 - fence.pml:290 - [(1)] (42:0:2 - 1)
		IfNotBlocked
		reached[1][35] = 1;
		if (!(1))
			continue;
		/* merge: .(goto)(42, 37, 42) */
		reached[1][37] = 1;
		;
		/* merge: doubt[each] = 1(42, 38, 42) */
		reached[1][38] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.doubt[ Index(((int)now.each), 2) ]);
		now.doubt[ Index(now.each, 2) ] = 1;
#ifdef VAR_RANGES
		logval("doubt[each]", ((int)now.doubt[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: each = (each+1)(42, 39, 42) */
		reached[1][39] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 43, 42) */
		reached[1][43] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 21: // STATE 38 - fence.pml:292 - [doubt[each] = 1] (0:42:2 - 3)
		IfNotBlocked
		reached[1][38] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.doubt[ Index(((int)now.each), 2) ]);
		now.doubt[ Index(now.each, 2) ] = 1;
#ifdef VAR_RANGES
		logval("doubt[each]", ((int)now.doubt[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: each = (each+1)(42, 39, 42) */
		reached[1][39] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 43, 42) */
		reached[1][43] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 22: // STATE 45 - fence.pml:297 - [who = 0] (0:0:1 - 1)
		IfNotBlocked
		reached[1][45] = 1;
		(trpt+1)->bup.oval = ((int)((P1 *)_this)->who);
		((P1 *)_this)->who = 0;
#ifdef VAR_RANGES
		logval("failing_over:who", ((int)((P1 *)_this)->who));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 23: // STATE 50 - fence.pml:300 - [-end-] (0:0:0 - 1)
		IfNotBlocked
		reached[1][50] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */

		 /* PROC leader */
	case 24: // STATE 1 - fence.pml:125 - [s = 0] (0:13:7 - 1)
		IfNotBlocked
		reached[0][1] = 1;
		(trpt+1)->bup.ovals = grab_ints(7);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->s);
		((P0 *)_this)->s = 0;
#ifdef VAR_RANGES
		logval("leader:s", ((int)((P0 *)_this)->s));
#endif
		;
		/* merge: shown = 0(13, 2, 13) */
		reached[0][2] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->shown);
		((P0 *)_this)->shown = 0;
#ifdef VAR_RANGES
		logval("leader:shown", ((int)((P0 *)_this)->shown));
#endif
		;
		/* merge: passed = 0(13, 3, 13) */
		reached[0][3] = 1;
		(trpt+1)->bup.ovals[2] = ((int)((P0 *)_this)->passed);
		((P0 *)_this)->passed = 0;
#ifdef VAR_RANGES
		logval("leader:passed", ((int)((P0 *)_this)->passed));
#endif
		;
		/* merge: wrote = 0(13, 4, 13) */
		reached[0][4] = 1;
		(trpt+1)->bup.ovals[3] = ((int)((P0 *)_this)->wrote);
		((P0 *)_this)->wrote = 0;
#ifdef VAR_RANGES
		logval("leader:wrote", ((int)((P0 *)_this)->wrote));
#endif
		;
		/* merge: statements = 0(13, 5, 13) */
		reached[0][5] = 1;
		(trpt+1)->bup.ovals[4] = ((int)((P0 *)_this)->statements);
		((P0 *)_this)->statements = 0;
#ifdef VAR_RANGES
		logval("leader:statements", ((int)((P0 *)_this)->statements));
#endif
		;
		/* merge: passed_before = 0(13, 6, 13) */
		reached[0][6] = 1;
		(trpt+1)->bup.ovals[5] = ((int)((P0 *)_this)->passed_before);
		((P0 *)_this)->passed_before = 0;
#ifdef VAR_RANGES
		logval("leader:passed_before", ((int)((P0 *)_this)->passed_before));
#endif
		;
		/* merge: wrote_before = 0(13, 7, 13) */
		reached[0][7] = 1;
		(trpt+1)->bup.ovals[6] = ((int)((P0 *)_this)->wrote_before);
		((P0 *)_this)->wrote_before = 0;
#ifdef VAR_RANGES
		logval("leader:wrote_before", ((int)((P0 *)_this)->wrote_before));
#endif
		;
		/* merge: .(goto)(0, 14, 13) */
		reached[0][14] = 1;
		;
		_m = 3; goto P999; /* 7 */
	case 25: // STATE 8 - fence.pml:126 - [((i<2))] (13:0:2 - 1)
		IfNotBlocked
		reached[0][8] = 1;
		if (!((((int)now.i)<2)))
			continue;
		/* merge: seen[i] = 0(13, 9, 13) */
		reached[0][9] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->seen[ Index(((int)now.i), 2) ]);
		((P0 *)_this)->seen[ Index(now.i, 2) ] = 0;
#ifdef VAR_RANGES
		logval("leader:seen[i]", ((int)((P0 *)_this)->seen[ Index(((int)now.i), 2) ]));
#endif
		;
		/* merge: i = (i+1)(13, 10, 13) */
		reached[0][10] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.i);
		now.i = (((int)now.i)+1);
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(0, 14, 13) */
		reached[0][14] = 1;
		;
		_m = 3; goto P999; /* 3 */
	case 26: // STATE 16 - fence.pml:126 - [i = 0] (0:29:2 - 3)
		IfNotBlocked
		reached[0][16] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.i);
		now.i = 0;
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: ended[me] = 0(29, 17, 29) */
		reached[0][17] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]);
		now.ended[ Index(((P0 *)_this)->me, 2) ] = 0;
#ifdef VAR_RANGES
		logval("ended[leader:me]", ((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 27: // STATE 19 - fence.pml:129 - [(((acquisitions<3)&&(acquisitions>=me)))] (34:0:1 - 1)
		IfNotBlocked
		reached[0][19] = 1;
		if (!(((((int)now.acquisitions)<3)&&(((int)now.acquisitions)>=((int)((P0 *)_this)->me)))))
			continue;
		/* merge: acquisitions = (acquisitions+1)(0, 20, 34) */
		reached[0][20] = 1;
		(trpt+1)->bup.oval = ((int)now.acquisitions);
		now.acquisitions = (((int)now.acquisitions)+1);
#ifdef VAR_RANGES
		logval("acquisitions", ((int)now.acquisitions));
#endif
		;
		/* merge: goto acquire(0, 22, 34) */
		reached[0][22] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 28: // STATE 23 - fence.pml:130 - [((work>0))] (385:0:1 - 1)
		IfNotBlocked
		reached[0][23] = 1;
		if (!((((int)((P0 *)_this)->work)>0)))
			continue;
		/* merge: work = (work-1)(0, 24, 385) */
		reached[0][24] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->work);
		((P0 *)_this)->work = (((int)((P0 *)_this)->work)-1);
#ifdef VAR_RANGES
		logval("leader:work", ((int)((P0 *)_this)->work));
#endif
		;
		/* merge: goto transaction(0, 26, 385) */
		reached[0][26] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 29: // STATE 31 - fence.pml:138 - [s = 0] (0:0:1 - 1)
		IfNotBlocked
		reached[0][31] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->s);
		((P0 *)_this)->s = 0;
#ifdef VAR_RANGES
		logval("leader:s", ((int)((P0 *)_this)->s));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 30: // STATE 32 - fence.pml:138 - [((2>1))] (42:0:1 - 1)
		IfNotBlocked
		reached[0][32] = 1;
		if (!((2>1)))
			continue;
		/* merge: s = 1(0, 33, 42) */
		reached[0][33] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->s);
		((P0 *)_this)->s = 1;
#ifdef VAR_RANGES
		logval("leader:s", ((int)((P0 *)_this)->s));
#endif
		;
		/* merge: .(goto)(0, 35, 42) */
		reached[0][35] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 31: // STATE 36 - fence.pml:149 - [(ended[me])] (18:0:0 - 1)
		IfNotBlocked
		reached[0][36] = 1;
		if (!(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ])))
			continue;
		/* merge: goto idle(0, 37, 18) */
		reached[0][37] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 32: // STATE 39 - fence.pml:150 - [((!(ended[me])&&(turnstile[s]==0)))] (110:0:1 - 1)
		IfNotBlocked
		reached[0][39] = 1;
		if (!(( !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]))&&(((int)now.turnstile[ Index(((int)((P0 *)_this)->s), 2) ])==0))))
			continue;
		/* merge: turnstile[s] = (me+1)(0, 40, 110) */
		reached[0][40] = 1;
		(trpt+1)->bup.oval = ((int)now.turnstile[ Index(((int)((P0 *)_this)->s), 2) ]);
		now.turnstile[ Index(((P0 *)_this)->s, 2) ] = (((int)((P0 *)_this)->me)+1);
#ifdef VAR_RANGES
		logval("turnstile[leader:s]", ((int)now.turnstile[ Index(((int)((P0 *)_this)->s), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 43, 110) */
		reached[0][43] = 1;
		;
		/* merge: .(goto)(0, 111, 110) */
		reached[0][111] = 1;
		;
		_m = 3; goto P999; /* 3 */
	case 33: // STATE 44 - fence.pml:153 - [(ended[me])] (18:0:0 - 1)
		IfNotBlocked
		reached[0][44] = 1;
		if (!(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ])))
			continue;
		/* merge: goto idle(0, 45, 18) */
		reached[0][45] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 34: // STATE 47 - fence.pml:154 - [(((!(ended[me])&&(shared[s]==0))&&(exclusive[s]==0)))] (170:0:1 - 1)
		IfNotBlocked
		reached[0][47] = 1;
		if (!((( !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]))&&(((int)now.shared[ Index(((int)((P0 *)_this)->s), 2) ])==0))&&(((int)now.exclusive[ Index(((int)((P0 *)_this)->s), 2) ])==0))))
			continue;
		/* merge: exclusive[s] = (me+1)(170, 48, 170) */
		reached[0][48] = 1;
		(trpt+1)->bup.oval = ((int)now.exclusive[ Index(((int)((P0 *)_this)->s), 2) ]);
		now.exclusive[ Index(((P0 *)_this)->s, 2) ] = (((int)((P0 *)_this)->me)+1);
#ifdef VAR_RANGES
		logval("exclusive[leader:s]", ((int)now.exclusive[ Index(((int)((P0 *)_this)->s), 2) ]));
#endif
		;
		/* merge: goto :b1(170, 49, 170) */
		reached[0][49] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 35: // STATE 51 - fence.pml:156 - [((!(ended[me])&&(shared[s]!=0)))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][51] = 1;
		if (!(( !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]))&&(((int)now.shared[ Index(((int)((P0 *)_this)->s), 2) ])!=0))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 36: // STATE 52 - fence.pml:85 - [((other<2))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][52] = 1;
		if (!((((int)now.other)<2)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 37: // STATE 53 - fence.pml:87 - [((shared[s]&(1<<other)))] (74:0:1 - 1)
		IfNotBlocked
		reached[0][53] = 1;
		if (!((((int)now.shared[ Index(((int)((P0 *)_this)->s), 2) ])&(1<<((int)now.other)))))
			continue;
		/* merge: ended[other] = 1(0, 54, 74) */
		reached[0][54] = 1;
		(trpt+1)->bup.oval = ((int)now.ended[ Index(((int)now.other), 2) ]);
		now.ended[ Index(now.other, 2) ] = 1;
#ifdef VAR_RANGES
		logval("ended[other]", ((int)now.ended[ Index(((int)now.other), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 38: // STATE 55 - fence.pml:72 - [((each<2))] (60:0:1 - 1)
		IfNotBlocked
		reached[0][55] = 1;
		if (!((((int)now.each)<2)))
			continue;
		/* merge: shared[each] = (shared[each]&~((1<<other)))(0, 56, 60) */
		reached[0][56] = 1;
		(trpt+1)->bup.oval = ((int)now.shared[ Index(((int)now.each), 2) ]);
		now.shared[ Index(now.each, 2) ] = (((int)now.shared[ Index(((int)now.each), 2) ])& ~((1<<((int)now.other))));
#ifdef VAR_RANGES
		logval("shared[each]", ((int)now.shared[ Index(((int)now.each), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 39: // STATE 57 - fence.pml:74 - [((exclusive[each]==(other+1)))] (65:0:1 - 1)
		IfNotBlocked
		reached[0][57] = 1;
		if (!((((int)now.exclusive[ Index(((int)now.each), 2) ])==(((int)now.other)+1))))
			continue;
		/* merge: exclusive[each] = 0(0, 58, 65) */
		reached[0][58] = 1;
		(trpt+1)->bup.oval = ((int)now.exclusive[ Index(((int)now.each), 2) ]);
		now.exclusive[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("exclusive[each]", ((int)now.exclusive[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 61, 65) */
		reached[0][61] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 40: // STATE 62 - fence.pml:75 - [((turnstile[each]==(other+1)))] (70:0:2 - 1)
		IfNotBlocked
		reached[0][62] = 1;
		if (!((((int)now.turnstile[ Index(((int)now.each), 2) ])==(((int)now.other)+1))))
			continue;
		/* merge: turnstile[each] = 0(70, 63, 70) */
		reached[0][63] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.turnstile[ Index(((int)now.each), 2) ]);
		now.turnstile[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("turnstile[each]", ((int)now.turnstile[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(70, 66, 70) */
		reached[0][66] = 1;
		;
		/* merge: each = (each+1)(70, 67, 70) */
		reached[0][67] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 71, 70) */
		reached[0][71] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 41: // STATE 67 - fence.pml:76 - [each = (each+1)] (0:70:1 - 3)
		IfNotBlocked
		reached[0][67] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 71, 70) */
		reached[0][71] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 42: // STATE 73 - fence.pml:79 - [each = 0] (0:81:2 - 3)
		IfNotBlocked
		reached[0][73] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.each);
		now.each = 0;
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(81, 77, 81) */
		reached[0][77] = 1;
		;
		/* merge: other = (other+1)(81, 78, 81) */
		reached[0][78] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.other);
		now.other = (((int)now.other)+1);
#ifdef VAR_RANGES
		logval("other", ((int)now.other));
#endif
		;
		/* merge: .(goto)(0, 82, 81) */
		reached[0][82] = 1;
		;
		_m = 3; goto P999; /* 3 */
	case 43: // STATE 78 - fence.pml:95 - [other = (other+1)] (0:81:1 - 3)
		IfNotBlocked
		reached[0][78] = 1;
		(trpt+1)->bup.oval = ((int)now.other);
		now.other = (((int)now.other)+1);
#ifdef VAR_RANGES
		logval("other", ((int)now.other));
#endif
		;
		/* merge: .(goto)(0, 82, 81) */
		reached[0][82] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 44: // STATE 84 - fence.pml:98 - [other = 0] (0:0:1 - 1)
		IfNotBlocked
		reached[0][84] = 1;
		(trpt+1)->bup.oval = ((int)now.other);
		now.other = 0;
#ifdef VAR_RANGES
		logval("other", ((int)now.other));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 45: // STATE 87 - fence.pml:158 - [(!(ended[me]))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][87] = 1;
		if (!( !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 46: // STATE 88 - fence.pml:72 - [((each<2))] (93:0:1 - 1)
		IfNotBlocked
		reached[0][88] = 1;
		if (!((((int)now.each)<2)))
			continue;
		/* merge: shared[each] = (shared[each]&~((1<<me)))(0, 89, 93) */
		reached[0][89] = 1;
		(trpt+1)->bup.oval = ((int)now.shared[ Index(((int)now.each), 2) ]);
		now.shared[ Index(now.each, 2) ] = (((int)now.shared[ Index(((int)now.each), 2) ])& ~((1<<((int)((P0 *)_this)->me))));
#ifdef VAR_RANGES
		logval("shared[each]", ((int)now.shared[ Index(((int)now.each), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 47: // STATE 90 - fence.pml:74 - [((exclusive[each]==(me+1)))] (98:0:1 - 1)
		IfNotBlocked
		reached[0][90] = 1;
		if (!((((int)now.exclusive[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: exclusive[each] = 0(0, 91, 98) */
		reached[0][91] = 1;
		(trpt+1)->bup.oval = ((int)now.exclusive[ Index(((int)now.each), 2) ]);
		now.exclusive[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("exclusive[each]", ((int)now.exclusive[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 94, 98) */
		reached[0][94] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 48: // STATE 95 - fence.pml:75 - [((turnstile[each]==(me+1)))] (103:0:2 - 1)
		IfNotBlocked
		reached[0][95] = 1;
		if (!((((int)now.turnstile[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: turnstile[each] = 0(103, 96, 103) */
		reached[0][96] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.turnstile[ Index(((int)now.each), 2) ]);
		now.turnstile[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("turnstile[each]", ((int)now.turnstile[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(103, 99, 103) */
		reached[0][99] = 1;
		;
		/* merge: each = (each+1)(103, 100, 103) */
		reached[0][100] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 104, 103) */
		reached[0][104] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 49: // STATE 100 - fence.pml:76 - [each = (each+1)] (0:103:1 - 3)
		IfNotBlocked
		reached[0][100] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 104, 103) */
		reached[0][104] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 50: // STATE 106 - fence.pml:79 - [each = 0] (0:18:1 - 3)
		IfNotBlocked
		reached[0][106] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = 0;
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: goto idle(18, 108, 18) */
		reached[0][108] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 51: // STATE 113 - fence.pml:161 - [(ended[me])] (18:0:0 - 1)
		IfNotBlocked
		reached[0][113] = 1;
		if (!(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ])))
			continue;
		/* merge: goto idle(0, 114, 18) */
		reached[0][114] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 52: // STATE 116 - fence.pml:163 - [(!(ended[me]))] (145:0:7 - 1)
		IfNotBlocked
		reached[0][116] = 1;
		if (!( !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]))))
			continue;
		/* merge: before[s] = fence[s](145, 117, 145) */
		reached[0][117] = 1;
		(trpt+1)->bup.ovals = grab_ints(7);
		(trpt+1)->bup.ovals[0] = ((int)now.before[ Index(((int)((P0 *)_this)->s), 2) ]);
		now.before[ Index(((P0 *)_this)->s, 2) ] = ((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ]);
#ifdef VAR_RANGES
		logval("before[leader:s]", ((int)now.before[ Index(((int)((P0 *)_this)->s), 2) ]));
#endif
		;
		/* merge: fence[s] = (fence[s]+( (doubt[s]) -> (4) : (1) ))(145, 118, 145) */
		reached[0][118] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ]);
		now.fence[ Index(((P0 *)_this)->s, 2) ] = (((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ])+( (((int)now.doubt[ Index(((int)((P0 *)_this)->s), 2) ])) ? (4) : (1) ));
#ifdef VAR_RANGES
		logval("fence[leader:s]", ((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ]));
#endif
		;
		/* merge: doubt[s] = 0(145, 119, 145) */
		reached[0][119] = 1;
		(trpt+1)->bup.ovals[2] = ((int)now.doubt[ Index(((int)((P0 *)_this)->s), 2) ]);
		now.doubt[ Index(((P0 *)_this)->s, 2) ] = 0;
#ifdef VAR_RANGES
		logval("doubt[leader:s]", ((int)now.doubt[ Index(((int)((P0 *)_this)->s), 2) ]));
#endif
		;
		/* merge: term[s] = fence[s](145, 120, 145) */
		reached[0][120] = 1;
		(trpt+1)->bup.ovals[3] = ((int)((P0 *)_this)->term[ Index(((int)((P0 *)_this)->s), 2) ]);
		((P0 *)_this)->term[ Index(((P0 *)_this)->s, 2) ] = ((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ]);
#ifdef VAR_RANGES
		logval("leader:term[leader:s]", ((int)((P0 *)_this)->term[ Index(((int)((P0 *)_this)->s), 2) ]));
#endif
		;
		/* merge: assert((owner[((s*((3+(4*1))+1))+fence[s])]==0))(145, 121, 145) */
		reached[0][121] = 1;
		spin_assert((((int)now.owner[ Index(((((int)((P0 *)_this)->s)*((3+(4*1))+1))+((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ])), 16) ])==0), "(owner[((s*((3+(4*1))+1))+fence[s])]==0)", II, tt, t);
		/* merge: owner[((s*((3+(4*1))+1))+fence[s])] = (me+1)(145, 122, 145) */
		reached[0][122] = 1;
		(trpt+1)->bup.ovals[4] = ((int)now.owner[ Index(((((int)((P0 *)_this)->s)*((3+(4*1))+1))+((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ])), 16) ]);
		now.owner[ Index(((((P0 *)_this)->s*((3+(4*1))+1))+now.fence[ Index(((P0 *)_this)->s, 2) ]), 16) ] = (((int)((P0 *)_this)->me)+1);
#ifdef VAR_RANGES
		logval("owner[((leader:s*((3+(4*1))+1))+fence[leader:s])]", ((int)now.owner[ Index(((((int)((P0 *)_this)->s)*((3+(4*1))+1))+((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ])), 16) ]));
#endif
		;
		/* merge: assert((fence[s]>shut[s]))(145, 123, 145) */
		reached[0][123] = 1;
		spin_assert((((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ])>((int)now.shut[ Index(((int)((P0 *)_this)->s), 2) ])), "(fence[s]>shut[s])", II, tt, t);
		/* merge: shut[s] = fence[s](145, 124, 145) */
		reached[0][124] = 1;
		(trpt+1)->bup.ovals[5] = ((int)now.shut[ Index(((int)((P0 *)_this)->s), 2) ]);
		now.shut[ Index(((P0 *)_this)->s, 2) ] = ((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ]);
#ifdef VAR_RANGES
		logval("shut[leader:s]", ((int)now.shut[ Index(((int)((P0 *)_this)->s), 2) ]));
#endif
		;
		/* merge: work = 1(145, 125, 145) */
		reached[0][125] = 1;
		(trpt+1)->bup.ovals[6] = ((int)((P0 *)_this)->work);
		((P0 *)_this)->work = 1;
#ifdef VAR_RANGES
		logval("leader:work", ((int)((P0 *)_this)->work));
#endif
		;
		_m = 3; goto P999; /* 9 */
	case 53: // STATE 126 - fence.pml:72 - [((each<2))] (131:0:1 - 1)
		IfNotBlocked
		reached[0][126] = 1;
		if (!((((int)now.each)<2)))
			continue;
		/* merge: shared[each] = (shared[each]&~((1<<me)))(0, 127, 131) */
		reached[0][127] = 1;
		(trpt+1)->bup.oval = ((int)now.shared[ Index(((int)now.each), 2) ]);
		now.shared[ Index(now.each, 2) ] = (((int)now.shared[ Index(((int)now.each), 2) ])& ~((1<<((int)((P0 *)_this)->me))));
#ifdef VAR_RANGES
		logval("shared[each]", ((int)now.shared[ Index(((int)now.each), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 54: // STATE 128 - fence.pml:74 - [((exclusive[each]==(me+1)))] (136:0:1 - 1)
		IfNotBlocked
		reached[0][128] = 1;
		if (!((((int)now.exclusive[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: exclusive[each] = 0(0, 129, 136) */
		reached[0][129] = 1;
		(trpt+1)->bup.oval = ((int)now.exclusive[ Index(((int)now.each), 2) ]);
		now.exclusive[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("exclusive[each]", ((int)now.exclusive[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 132, 136) */
		reached[0][132] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 55: // STATE 133 - fence.pml:75 - [((turnstile[each]==(me+1)))] (141:0:2 - 1)
		IfNotBlocked
		reached[0][133] = 1;
		if (!((((int)now.turnstile[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: turnstile[each] = 0(141, 134, 141) */
		reached[0][134] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.turnstile[ Index(((int)now.each), 2) ]);
		now.turnstile[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("turnstile[each]", ((int)now.turnstile[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(141, 137, 141) */
		reached[0][137] = 1;
		;
		/* merge: each = (each+1)(141, 138, 141) */
		reached[0][138] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 142, 141) */
		reached[0][142] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 56: // STATE 138 - fence.pml:76 - [each = (each+1)] (0:141:1 - 3)
		IfNotBlocked
		reached[0][138] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 142, 141) */
		reached[0][142] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 57: // STATE 144 - fence.pml:79 - [each = 0] (0:0:1 - 1)
		IfNotBlocked
		reached[0][144] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = 0;
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 58: // STATE 147 - fence.pml:184 - [(!(ended[me]))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][147] = 1;
		if (!( !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 59: // STATE 148 - fence.pml:72 - [((each<2))] (153:0:1 - 1)
		IfNotBlocked
		reached[0][148] = 1;
		if (!((((int)now.each)<2)))
			continue;
		/* merge: shared[each] = (shared[each]&~((1<<me)))(0, 149, 153) */
		reached[0][149] = 1;
		(trpt+1)->bup.oval = ((int)now.shared[ Index(((int)now.each), 2) ]);
		now.shared[ Index(now.each, 2) ] = (((int)now.shared[ Index(((int)now.each), 2) ])& ~((1<<((int)((P0 *)_this)->me))));
#ifdef VAR_RANGES
		logval("shared[each]", ((int)now.shared[ Index(((int)now.each), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 60: // STATE 150 - fence.pml:74 - [((exclusive[each]==(me+1)))] (158:0:1 - 1)
		IfNotBlocked
		reached[0][150] = 1;
		if (!((((int)now.exclusive[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: exclusive[each] = 0(0, 151, 158) */
		reached[0][151] = 1;
		(trpt+1)->bup.oval = ((int)now.exclusive[ Index(((int)now.each), 2) ]);
		now.exclusive[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("exclusive[each]", ((int)now.exclusive[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 154, 158) */
		reached[0][154] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 61: // STATE 155 - fence.pml:75 - [((turnstile[each]==(me+1)))] (163:0:2 - 1)
		IfNotBlocked
		reached[0][155] = 1;
		if (!((((int)now.turnstile[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: turnstile[each] = 0(163, 156, 163) */
		reached[0][156] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.turnstile[ Index(((int)now.each), 2) ]);
		now.turnstile[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("turnstile[each]", ((int)now.turnstile[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(163, 159, 163) */
		reached[0][159] = 1;
		;
		/* merge: each = (each+1)(163, 160, 163) */
		reached[0][160] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 164, 163) */
		reached[0][164] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 62: // STATE 160 - fence.pml:76 - [each = (each+1)] (0:163:1 - 3)
		IfNotBlocked
		reached[0][160] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 164, 163) */
		reached[0][164] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 63: // STATE 166 - fence.pml:79 - [each = 0] (0:18:1 - 3)
		IfNotBlocked
		reached[0][166] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = 0;
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: goto idle(18, 168, 18) */
		reached[0][168] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 64: // STATE 173 - fence.pml:190 - [((statements<2))] (181:0:3 - 1)
		IfNotBlocked
		reached[0][173] = 1;
		if (!((((int)((P0 *)_this)->statements)<2)))
			continue;
		/* merge: statements = (statements+1)(181, 174, 181) */
		reached[0][174] = 1;
		(trpt+1)->bup.ovals = grab_ints(3);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->statements);
		((P0 *)_this)->statements = (((int)((P0 *)_this)->statements)+1);
#ifdef VAR_RANGES
		logval("leader:statements", ((int)((P0 *)_this)->statements));
#endif
		;
		/* merge: passed_before = passed(181, 175, 181) */
		reached[0][175] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->passed_before);
		((P0 *)_this)->passed_before = ((int)((P0 *)_this)->passed);
#ifdef VAR_RANGES
		logval("leader:passed_before", ((int)((P0 *)_this)->passed_before));
#endif
		;
		/* merge: wrote_before = wrote(181, 176, 181) */
		reached[0][176] = 1;
		(trpt+1)->bup.ovals[2] = ((int)((P0 *)_this)->wrote_before);
		((P0 *)_this)->wrote_before = ((int)((P0 *)_this)->wrote);
#ifdef VAR_RANGES
		logval("leader:wrote_before", ((int)((P0 *)_this)->wrote_before));
#endif
		;
		_m = 3; goto P999; /* 3 */
	case 65: // STATE 177 - fence.pml:192 - [((term[0]>0))] (294:0:1 - 1)
		IfNotBlocked
		reached[0][177] = 1;
		if (!((((int)((P0 *)_this)->term[0])>0)))
			continue;
		/* merge: s = 0(0, 178, 294) */
		reached[0][178] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->s);
		((P0 *)_this)->s = 0;
#ifdef VAR_RANGES
		logval("leader:s", ((int)((P0 *)_this)->s));
#endif
		;
		/* merge: .(goto)(0, 182, 294) */
		reached[0][182] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 66: // STATE 179 - fence.pml:192 - [(((2>1)&&(term[(2-1)]>0)))] (294:0:1 - 1)
		IfNotBlocked
		reached[0][179] = 1;
		if (!(((2>1)&&(((int)((P0 *)_this)->term[ Index((2-1), 2) ])>0))))
			continue;
		/* merge: s = (2-1)(0, 180, 294) */
		reached[0][180] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->s);
		((P0 *)_this)->s = (2-1);
#ifdef VAR_RANGES
		logval("leader:s", ((int)((P0 *)_this)->s));
#endif
		;
		/* merge: .(goto)(0, 182, 294) */
		reached[0][182] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 67: // STATE 183 - fence.pml:194 - [(((passed&(1<<s))&&!(ended[me])))] (385:0:1 - 1)
		IfNotBlocked
		reached[0][183] = 1;
		if (!(((((int)((P0 *)_this)->passed)&(1<<((int)((P0 *)_this)->s)))&& !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ])))))
			continue;
		/* merge: wrote = (wrote|(1<<s))(0, 184, 385) */
		reached[0][184] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->wrote);
		((P0 *)_this)->wrote = (((int)((P0 *)_this)->wrote)|(1<<((int)((P0 *)_this)->s)));
#ifdef VAR_RANGES
		logval("leader:wrote", ((int)((P0 *)_this)->wrote));
#endif
		;
		/* merge: .(goto)(0, 295, 385) */
		reached[0][295] = 1;
		;
		/* merge: .(goto)(0, 386, 385) */
		reached[0][386] = 1;
		;
		_m = 3; goto P999; /* 3 */
	case 68: // STATE 186 - fence.pml:195 - [(ended[me])] (18:0:0 - 1)
		IfNotBlocked
		reached[0][186] = 1;
		if (!(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ])))
			continue;
		/* merge: goto idle(0, 187, 18) */
		reached[0][187] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 69: // STATE 189 - fence.pml:196 - [((!((passed&(1<<s)))&&!(ended[me])))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][189] = 1;
		if (!(( !((((int)((P0 *)_this)->passed)&(1<<((int)((P0 *)_this)->s))))&& !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ])))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 70: // STATE 190 - fence.pml:198 - [((0&&!(shown)))] (198:0:3 - 1)
		IfNotBlocked
		reached[0][190] = 1;
		if (!((0&& !(((int)((P0 *)_this)->shown)))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: shown */  (trpt+1)->bup.ovals = grab_ints(3);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->shown;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->shown = 0;
		/* merge: shown = 1(198, 191, 198) */
		reached[0][191] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->shown);
		((P0 *)_this)->shown = 1;
#ifdef VAR_RANGES
		logval("leader:shown", ((int)((P0 *)_this)->shown));
#endif
		;
		/* merge: i = 0(198, 192, 198) */
		reached[0][192] = 1;
		(trpt+1)->bup.ovals[2] = ((int)now.i);
		now.i = 0;
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(0, 199, 198) */
		reached[0][199] = 1;
		;
		_m = 3; goto P999; /* 3 */
	case 71: // STATE 193 - fence.pml:199 - [((i<2))] (198:0:2 - 1)
		IfNotBlocked
		reached[0][193] = 1;
		if (!((((int)now.i)<2)))
			continue;
		/* merge: seen[i] = fence[i](198, 194, 198) */
		reached[0][194] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->seen[ Index(((int)now.i), 2) ]);
		((P0 *)_this)->seen[ Index(now.i, 2) ] = ((int)now.fence[ Index(((int)now.i), 2) ]);
#ifdef VAR_RANGES
		logval("leader:seen[i]", ((int)((P0 *)_this)->seen[ Index(((int)now.i), 2) ]));
#endif
		;
		/* merge: i = (i+1)(198, 195, 198) */
		reached[0][195] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.i);
		now.i = (((int)now.i)+1);
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(0, 199, 198) */
		reached[0][199] = 1;
		;
		_m = 3; goto P999; /* 3 */
	case 72: // STATE 201 - fence.pml:199 - [i = 0] (0:235:1 - 3)
		IfNotBlocked
		reached[0][201] = 1;
		(trpt+1)->bup.oval = ((int)now.i);
		now.i = 0;
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(235, 204, 235) */
		reached[0][204] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 73: // STATE 204 - fence.pml:205 - [.(goto)] (0:235:0 - 2)
		IfNotBlocked
		reached[0][204] = 1;
		;
		_m = 3; goto P999; /* 0 */
	case 74: // STATE 206 - fence.pml:208 - [(ended[me])] (18:0:0 - 1)
		IfNotBlocked
		reached[0][206] = 1;
		if (!(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ])))
			continue;
		/* merge: goto idle(0, 207, 18) */
		reached[0][207] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 75: // STATE 209 - fence.pml:209 - [(((!(ended[me])&&(turnstile[s]==0))&&(exclusive[s]==0)))] (292:0:1 - 1)
		IfNotBlocked
		reached[0][209] = 1;
		if (!((( !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]))&&(((int)now.turnstile[ Index(((int)((P0 *)_this)->s), 2) ])==0))&&(((int)now.exclusive[ Index(((int)((P0 *)_this)->s), 2) ])==0))))
			continue;
		/* merge: shared[s] = (shared[s]|(1<<me))(0, 210, 292) */
		reached[0][210] = 1;
		(trpt+1)->bup.oval = ((int)now.shared[ Index(((int)((P0 *)_this)->s), 2) ]);
		now.shared[ Index(((P0 *)_this)->s, 2) ] = (((int)now.shared[ Index(((int)((P0 *)_this)->s), 2) ])|(1<<((int)((P0 *)_this)->me)));
#ifdef VAR_RANGES
		logval("shared[leader:s]", ((int)now.shared[ Index(((int)((P0 *)_this)->s), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 236, 292) */
		reached[0][236] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 76: // STATE 212 - fence.pml:210 - [((!(ended[me])&&((turnstile[s]!=0)||(exclusive[s]!=0))))] (0:0:1 - 1)
		IfNotBlocked
		reached[0][212] = 1;
		if (!(( !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]))&&((((int)now.turnstile[ Index(((int)((P0 *)_this)->s), 2) ])!=0)||(((int)now.exclusive[ Index(((int)((P0 *)_this)->s), 2) ])!=0)))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: s */  (trpt+1)->bup.oval = ((P0 *)_this)->s;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->s = 0;
		_m = 3; goto P999; /* 0 */
	case 77: // STATE 213 - fence.pml:72 - [((each<2))] (218:0:1 - 1)
		IfNotBlocked
		reached[0][213] = 1;
		if (!((((int)now.each)<2)))
			continue;
		/* merge: shared[each] = (shared[each]&~((1<<me)))(0, 214, 218) */
		reached[0][214] = 1;
		(trpt+1)->bup.oval = ((int)now.shared[ Index(((int)now.each), 2) ]);
		now.shared[ Index(now.each, 2) ] = (((int)now.shared[ Index(((int)now.each), 2) ])& ~((1<<((int)((P0 *)_this)->me))));
#ifdef VAR_RANGES
		logval("shared[each]", ((int)now.shared[ Index(((int)now.each), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 78: // STATE 215 - fence.pml:74 - [((exclusive[each]==(me+1)))] (223:0:1 - 1)
		IfNotBlocked
		reached[0][215] = 1;
		if (!((((int)now.exclusive[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: exclusive[each] = 0(0, 216, 223) */
		reached[0][216] = 1;
		(trpt+1)->bup.oval = ((int)now.exclusive[ Index(((int)now.each), 2) ]);
		now.exclusive[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("exclusive[each]", ((int)now.exclusive[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 219, 223) */
		reached[0][219] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 79: // STATE 220 - fence.pml:75 - [((turnstile[each]==(me+1)))] (228:0:2 - 1)
		IfNotBlocked
		reached[0][220] = 1;
		if (!((((int)now.turnstile[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: turnstile[each] = 0(228, 221, 228) */
		reached[0][221] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.turnstile[ Index(((int)now.each), 2) ]);
		now.turnstile[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("turnstile[each]", ((int)now.turnstile[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(228, 224, 228) */
		reached[0][224] = 1;
		;
		/* merge: each = (each+1)(228, 225, 228) */
		reached[0][225] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 229, 228) */
		reached[0][229] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 80: // STATE 225 - fence.pml:76 - [each = (each+1)] (0:228:1 - 3)
		IfNotBlocked
		reached[0][225] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 229, 228) */
		reached[0][229] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 81: // STATE 231 - fence.pml:79 - [each = 0] (0:18:1 - 3)
		IfNotBlocked
		reached[0][231] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = 0;
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: goto idle(18, 233, 18) */
		reached[0][233] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 82: // STATE 237 - fence.pml:214 - [(ended[me])] (18:0:0 - 1)
		IfNotBlocked
		reached[0][237] = 1;
		if (!(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ])))
			continue;
		/* merge: goto idle(0, 238, 18) */
		reached[0][238] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 83: // STATE 240 - fence.pml:216 - [(((!(ended[me])&&0)&&(seen[s]!=fence[s])))] (0:0:1 - 1)
		IfNotBlocked
		reached[0][240] = 1;
		if (!((( !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]))&&0)&&(((int)((P0 *)_this)->seen[ Index(((int)((P0 *)_this)->s), 2) ])!=((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ])))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: s */  (trpt+1)->bup.oval = ((P0 *)_this)->s;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->s = 0;
		_m = 3; goto P999; /* 0 */
	case 84: // STATE 241 - fence.pml:72 - [((each<2))] (246:0:1 - 1)
		IfNotBlocked
		reached[0][241] = 1;
		if (!((((int)now.each)<2)))
			continue;
		/* merge: shared[each] = (shared[each]&~((1<<me)))(0, 242, 246) */
		reached[0][242] = 1;
		(trpt+1)->bup.oval = ((int)now.shared[ Index(((int)now.each), 2) ]);
		now.shared[ Index(now.each, 2) ] = (((int)now.shared[ Index(((int)now.each), 2) ])& ~((1<<((int)((P0 *)_this)->me))));
#ifdef VAR_RANGES
		logval("shared[each]", ((int)now.shared[ Index(((int)now.each), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 85: // STATE 243 - fence.pml:74 - [((exclusive[each]==(me+1)))] (251:0:1 - 1)
		IfNotBlocked
		reached[0][243] = 1;
		if (!((((int)now.exclusive[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: exclusive[each] = 0(0, 244, 251) */
		reached[0][244] = 1;
		(trpt+1)->bup.oval = ((int)now.exclusive[ Index(((int)now.each), 2) ]);
		now.exclusive[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("exclusive[each]", ((int)now.exclusive[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 247, 251) */
		reached[0][247] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 86: // STATE 248 - fence.pml:75 - [((turnstile[each]==(me+1)))] (256:0:2 - 1)
		IfNotBlocked
		reached[0][248] = 1;
		if (!((((int)now.turnstile[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: turnstile[each] = 0(256, 249, 256) */
		reached[0][249] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.turnstile[ Index(((int)now.each), 2) ]);
		now.turnstile[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("turnstile[each]", ((int)now.turnstile[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(256, 252, 256) */
		reached[0][252] = 1;
		;
		/* merge: each = (each+1)(256, 253, 256) */
		reached[0][253] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 257, 256) */
		reached[0][257] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 87: // STATE 253 - fence.pml:76 - [each = (each+1)] (0:256:1 - 3)
		IfNotBlocked
		reached[0][253] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 257, 256) */
		reached[0][257] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 88: // STATE 259 - fence.pml:79 - [each = 0] (0:18:1 - 3)
		IfNotBlocked
		reached[0][259] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = 0;
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: goto idle(18, 261, 18) */
		reached[0][261] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 89: // STATE 263 - fence.pml:218 - [((!(ended[me])&&!((0&&(seen[s]!=fence[s])))))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][263] = 1;
		if (!(( !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]))&& !((0&&(((int)((P0 *)_this)->seen[ Index(((int)((P0 *)_this)->s), 2) ])!=((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ])))))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 90: // STATE 264 - fence.pml:229 - [(((term[s]<fence[s])||doubt[s]))] (0:0:1 - 1)
		IfNotBlocked
		reached[0][264] = 1;
		if (!(((((int)((P0 *)_this)->term[ Index(((int)((P0 *)_this)->s), 2) ])<((int)now.fence[ Index(((int)((P0 *)_this)->s), 2) ]))||((int)now.doubt[ Index(((int)((P0 *)_this)->s), 2) ]))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: s */  (trpt+1)->bup.oval = ((P0 *)_this)->s;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->s = 0;
		_m = 3; goto P999; /* 0 */
	case 91: // STATE 265 - fence.pml:72 - [((each<2))] (270:0:1 - 1)
		IfNotBlocked
		reached[0][265] = 1;
		if (!((((int)now.each)<2)))
			continue;
		/* merge: shared[each] = (shared[each]&~((1<<me)))(0, 266, 270) */
		reached[0][266] = 1;
		(trpt+1)->bup.oval = ((int)now.shared[ Index(((int)now.each), 2) ]);
		now.shared[ Index(now.each, 2) ] = (((int)now.shared[ Index(((int)now.each), 2) ])& ~((1<<((int)((P0 *)_this)->me))));
#ifdef VAR_RANGES
		logval("shared[each]", ((int)now.shared[ Index(((int)now.each), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 92: // STATE 267 - fence.pml:74 - [((exclusive[each]==(me+1)))] (275:0:1 - 1)
		IfNotBlocked
		reached[0][267] = 1;
		if (!((((int)now.exclusive[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: exclusive[each] = 0(0, 268, 275) */
		reached[0][268] = 1;
		(trpt+1)->bup.oval = ((int)now.exclusive[ Index(((int)now.each), 2) ]);
		now.exclusive[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("exclusive[each]", ((int)now.exclusive[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 271, 275) */
		reached[0][271] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 93: // STATE 272 - fence.pml:75 - [((turnstile[each]==(me+1)))] (280:0:2 - 1)
		IfNotBlocked
		reached[0][272] = 1;
		if (!((((int)now.turnstile[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: turnstile[each] = 0(280, 273, 280) */
		reached[0][273] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.turnstile[ Index(((int)now.each), 2) ]);
		now.turnstile[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("turnstile[each]", ((int)now.turnstile[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(280, 276, 280) */
		reached[0][276] = 1;
		;
		/* merge: each = (each+1)(280, 277, 280) */
		reached[0][277] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 281, 280) */
		reached[0][281] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 94: // STATE 277 - fence.pml:76 - [each = (each+1)] (0:280:1 - 3)
		IfNotBlocked
		reached[0][277] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 281, 280) */
		reached[0][281] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 95: // STATE 283 - fence.pml:79 - [each = 0] (0:18:1 - 3)
		IfNotBlocked
		reached[0][283] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = 0;
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: goto idle(18, 285, 18) */
		reached[0][285] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 96: // STATE 290 - fence.pml:233 - [.(goto)] (0:385:0 - 1)
		IfNotBlocked
		reached[0][290] = 1;
		;
		/* merge: .(goto)(0, 293, 385) */
		reached[0][293] = 1;
		;
		/* merge: .(goto)(0, 295, 385) */
		reached[0][295] = 1;
		;
		/* merge: .(goto)(0, 386, 385) */
		reached[0][386] = 1;
		;
		_m = 3; goto P999; /* 3 */
	case 97: // STATE 287 - fence.pml:231 - [passed = (passed|(1<<s))] (0:385:2 - 1)
		IfNotBlocked
		reached[0][287] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->passed);
		((P0 *)_this)->passed = (((int)((P0 *)_this)->passed)|(1<<((int)((P0 *)_this)->s)));
#ifdef VAR_RANGES
		logval("leader:passed", ((int)((P0 *)_this)->passed));
#endif
		;
		/* merge: wrote = (wrote|(1<<s))(385, 288, 385) */
		reached[0][288] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->wrote);
		((P0 *)_this)->wrote = (((int)((P0 *)_this)->wrote)|(1<<((int)((P0 *)_this)->s)));
#ifdef VAR_RANGES
		logval("leader:wrote", ((int)((P0 *)_this)->wrote));
#endif
		;
		/* merge: .(goto)(385, 290, 385) */
		reached[0][290] = 1;
		;
		/* merge: .(goto)(0, 293, 385) */
		reached[0][293] = 1;
		;
		/* merge: .(goto)(0, 295, 385) */
		reached[0][295] = 1;
		;
		/* merge: .(goto)(0, 386, 385) */
		reached[0][386] = 1;
		;
		_m = 3; goto P999; /* 5 */
	case 98: // STATE 296 - fence.pml:236 - [((((wrote!=wrote_before)&&(statements<2))&&!(ended[me])))] (307:0:2 - 1)
		IfNotBlocked
		reached[0][296] = 1;
		if (!((((((int)((P0 *)_this)->wrote)!=((int)((P0 *)_this)->wrote_before))&&(((int)((P0 *)_this)->statements)<2))&& !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ])))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: wrote */  (trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->wrote;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->wrote = 0;
		/* merge: i = 0(0, 297, 307) */
		reached[0][297] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.i);
		now.i = 0;
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(0, 308, 307) */
		reached[0][308] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 99: // STATE 298 - fence.pml:239 - [((i<2))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][298] = 1;
		if (!((((int)now.i)<2)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 100: // STATE 299 - fence.pml:239 - [(((passed&(1<<i))&&!((passed_before&(1<<i)))))] (307:0:2 - 1)
		IfNotBlocked
		reached[0][299] = 1;
		if (!(((((int)((P0 *)_this)->passed)&(1<<((int)now.i)))&& !((((int)((P0 *)_this)->passed_before)&(1<<((int)now.i)))))))
			continue;
		/* merge: shared[i] = (shared[i]&~((1<<me)))(307, 300, 307) */
		reached[0][300] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.shared[ Index(((int)now.i), 2) ]);
		now.shared[ Index(now.i, 2) ] = (((int)now.shared[ Index(((int)now.i), 2) ])& ~((1<<((int)((P0 *)_this)->me))));
#ifdef VAR_RANGES
		logval("shared[i]", ((int)now.shared[ Index(((int)now.i), 2) ]));
#endif
		;
		/* merge: .(goto)(307, 303, 307) */
		reached[0][303] = 1;
		;
		/* merge: i = (i+1)(307, 304, 307) */
		reached[0][304] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.i);
		now.i = (((int)now.i)+1);
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(0, 308, 307) */
		reached[0][308] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 101: // STATE 304 - fence.pml:239 - [i = (i+1)] (0:307:1 - 3)
		IfNotBlocked
		reached[0][304] = 1;
		(trpt+1)->bup.oval = ((int)now.i);
		now.i = (((int)now.i)+1);
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(0, 308, 307) */
		reached[0][308] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 102: // STATE 310 - fence.pml:242 - [i = 0] (0:385:4 - 3)
		IfNotBlocked
		reached[0][310] = 1;
		(trpt+1)->bup.ovals = grab_ints(4);
		(trpt+1)->bup.ovals[0] = ((int)now.i);
		now.i = 0;
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: wrote = wrote_before(385, 311, 385) */
		reached[0][311] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->wrote);
		((P0 *)_this)->wrote = ((int)((P0 *)_this)->wrote_before);
#ifdef VAR_RANGES
		logval("leader:wrote", ((int)((P0 *)_this)->wrote));
#endif
		;
		/* merge: passed = passed_before(385, 312, 385) */
		reached[0][312] = 1;
		(trpt+1)->bup.ovals[2] = ((int)((P0 *)_this)->passed);
		((P0 *)_this)->passed = ((int)((P0 *)_this)->passed_before);
#ifdef VAR_RANGES
		logval("leader:passed", ((int)((P0 *)_this)->passed));
#endif
		;
		/* merge: passed_before = passed(385, 313, 385) */
		reached[0][313] = 1;
		(trpt+1)->bup.ovals[3] = ((int)((P0 *)_this)->passed_before);
		((P0 *)_this)->passed_before = ((int)((P0 *)_this)->passed);
#ifdef VAR_RANGES
		logval("leader:passed_before", ((int)((P0 *)_this)->passed_before));
#endif
		;
		/* merge: .(goto)(0, 386, 385) */
		reached[0][386] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 103: // STATE 315 - fence.pml:248 - [(((wrote!=0)&&!(ended[me])))] (331:0:1 - 1)
		IfNotBlocked
		reached[0][315] = 1;
		if (!(((((int)((P0 *)_this)->wrote)!=0)&& !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ])))))
			continue;
		/* merge: i = 0(0, 316, 331) */
		reached[0][316] = 1;
		(trpt+1)->bup.oval = ((int)now.i);
		now.i = 0;
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(0, 332, 331) */
		reached[0][332] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 104: // STATE 317 - fence.pml:251 - [((i<2))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][317] = 1;
		if (!((((int)now.i)<2)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 105: // STATE 318 - fence.pml:253 - [((wrote&(1<<i)))] (323:0:0 - 1)
		IfNotBlocked
		reached[0][318] = 1;
		if (!((((int)((P0 *)_this)->wrote)&(1<<((int)now.i)))))
			continue;
		/* merge: assert((term[i]>=shut[i]))(0, 319, 323) */
		reached[0][319] = 1;
		spin_assert((((int)((P0 *)_this)->term[ Index(((int)now.i), 2) ])>=((int)now.shut[ Index(((int)now.i), 2) ])), "(term[i]>=shut[i])", II, tt, t);
		_m = 3; goto P999; /* 1 */
	case 106: // STATE 320 - fence.pml:255 - [((shut[i]<term[i]))] (331:0:2 - 1)
		IfNotBlocked
		reached[0][320] = 1;
		if (!((((int)now.shut[ Index(((int)now.i), 2) ])<((int)((P0 *)_this)->term[ Index(((int)now.i), 2) ]))))
			continue;
		/* merge: shut[i] = term[i](331, 321, 331) */
		reached[0][321] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.shut[ Index(((int)now.i), 2) ]);
		now.shut[ Index(now.i, 2) ] = ((int)((P0 *)_this)->term[ Index(((int)now.i), 2) ]);
#ifdef VAR_RANGES
		logval("shut[i]", ((int)now.shut[ Index(((int)now.i), 2) ]));
#endif
		;
		/* merge: .(goto)(331, 324, 331) */
		reached[0][324] = 1;
		;
		/* merge: .(goto)(331, 327, 331) */
		reached[0][327] = 1;
		;
		/* merge: i = (i+1)(331, 328, 331) */
		reached[0][328] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.i);
		now.i = (((int)now.i)+1);
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(0, 332, 331) */
		reached[0][332] = 1;
		;
		_m = 3; goto P999; /* 5 */
	case 107: // STATE 328 - fence.pml:258 - [i = (i+1)] (0:331:1 - 5)
		IfNotBlocked
		reached[0][328] = 1;
		(trpt+1)->bup.oval = ((int)now.i);
		now.i = (((int)now.i)+1);
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(0, 332, 331) */
		reached[0][332] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 108: // STATE 334 - fence.pml:261 - [i = 0] (0:354:1 - 3)
		IfNotBlocked
		reached[0][334] = 1;
		(trpt+1)->bup.oval = ((int)now.i);
		now.i = 0;
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 109: // STATE 335 - fence.pml:72 - [((each<2))] (340:0:1 - 1)
		IfNotBlocked
		reached[0][335] = 1;
		if (!((((int)now.each)<2)))
			continue;
		/* merge: shared[each] = (shared[each]&~((1<<me)))(0, 336, 340) */
		reached[0][336] = 1;
		(trpt+1)->bup.oval = ((int)now.shared[ Index(((int)now.each), 2) ]);
		now.shared[ Index(now.each, 2) ] = (((int)now.shared[ Index(((int)now.each), 2) ])& ~((1<<((int)((P0 *)_this)->me))));
#ifdef VAR_RANGES
		logval("shared[each]", ((int)now.shared[ Index(((int)now.each), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 110: // STATE 337 - fence.pml:74 - [((exclusive[each]==(me+1)))] (345:0:1 - 1)
		IfNotBlocked
		reached[0][337] = 1;
		if (!((((int)now.exclusive[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: exclusive[each] = 0(0, 338, 345) */
		reached[0][338] = 1;
		(trpt+1)->bup.oval = ((int)now.exclusive[ Index(((int)now.each), 2) ]);
		now.exclusive[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("exclusive[each]", ((int)now.exclusive[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 341, 345) */
		reached[0][341] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 111: // STATE 342 - fence.pml:75 - [((turnstile[each]==(me+1)))] (350:0:2 - 1)
		IfNotBlocked
		reached[0][342] = 1;
		if (!((((int)now.turnstile[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: turnstile[each] = 0(350, 343, 350) */
		reached[0][343] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.turnstile[ Index(((int)now.each), 2) ]);
		now.turnstile[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("turnstile[each]", ((int)now.turnstile[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(350, 346, 350) */
		reached[0][346] = 1;
		;
		/* merge: each = (each+1)(350, 347, 350) */
		reached[0][347] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 351, 350) */
		reached[0][351] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 112: // STATE 347 - fence.pml:76 - [each = (each+1)] (0:350:1 - 3)
		IfNotBlocked
		reached[0][347] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 351, 350) */
		reached[0][351] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 113: // STATE 353 - fence.pml:79 - [each = 0] (0:18:1 - 3)
		IfNotBlocked
		reached[0][353] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = 0;
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: goto idle(18, 355, 18) */
		reached[0][355] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 114: // STATE 357 - fence.pml:263 - [(ended[me])] (18:0:0 - 1)
		IfNotBlocked
		reached[0][357] = 1;
		if (!(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ])))
			continue;
		/* merge: goto idle(0, 358, 18) */
		reached[0][358] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 115: // STATE 360 - fence.pml:264 - [(!(ended[me]))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][360] = 1;
		if (!( !(((int)now.ended[ Index(((int)((P0 *)_this)->me), 2) ]))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 116: // STATE 361 - fence.pml:72 - [((each<2))] (366:0:1 - 1)
		IfNotBlocked
		reached[0][361] = 1;
		if (!((((int)now.each)<2)))
			continue;
		/* merge: shared[each] = (shared[each]&~((1<<me)))(0, 362, 366) */
		reached[0][362] = 1;
		(trpt+1)->bup.oval = ((int)now.shared[ Index(((int)now.each), 2) ]);
		now.shared[ Index(now.each, 2) ] = (((int)now.shared[ Index(((int)now.each), 2) ])& ~((1<<((int)((P0 *)_this)->me))));
#ifdef VAR_RANGES
		logval("shared[each]", ((int)now.shared[ Index(((int)now.each), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 117: // STATE 363 - fence.pml:74 - [((exclusive[each]==(me+1)))] (371:0:1 - 1)
		IfNotBlocked
		reached[0][363] = 1;
		if (!((((int)now.exclusive[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: exclusive[each] = 0(0, 364, 371) */
		reached[0][364] = 1;
		(trpt+1)->bup.oval = ((int)now.exclusive[ Index(((int)now.each), 2) ]);
		now.exclusive[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("exclusive[each]", ((int)now.exclusive[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(0, 367, 371) */
		reached[0][367] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 118: // STATE 368 - fence.pml:75 - [((turnstile[each]==(me+1)))] (376:0:2 - 1)
		IfNotBlocked
		reached[0][368] = 1;
		if (!((((int)now.turnstile[ Index(((int)now.each), 2) ])==(((int)((P0 *)_this)->me)+1))))
			continue;
		/* merge: turnstile[each] = 0(376, 369, 376) */
		reached[0][369] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.turnstile[ Index(((int)now.each), 2) ]);
		now.turnstile[ Index(now.each, 2) ] = 0;
#ifdef VAR_RANGES
		logval("turnstile[each]", ((int)now.turnstile[ Index(((int)now.each), 2) ]));
#endif
		;
		/* merge: .(goto)(376, 372, 376) */
		reached[0][372] = 1;
		;
		/* merge: each = (each+1)(376, 373, 376) */
		reached[0][373] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 377, 376) */
		reached[0][377] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 119: // STATE 373 - fence.pml:76 - [each = (each+1)] (0:376:1 - 3)
		IfNotBlocked
		reached[0][373] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = (((int)now.each)+1);
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: .(goto)(0, 377, 376) */
		reached[0][377] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 120: // STATE 379 - fence.pml:79 - [each = 0] (0:18:1 - 3)
		IfNotBlocked
		reached[0][379] = 1;
		(trpt+1)->bup.oval = ((int)now.each);
		now.each = 0;
#ifdef VAR_RANGES
		logval("each", ((int)now.each));
#endif
		;
		/* merge: goto idle(18, 381, 18) */
		reached[0][381] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 121: // STATE 383 - fence.pml:265 - [((passed!=0))] (0:0:1 - 1)
		IfNotBlocked
		reached[0][383] = 1;
		if (!((((int)((P0 *)_this)->passed)!=0)))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: passed */  (trpt+1)->bup.oval = ((P0 *)_this)->passed;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->passed = 0;
		_m = 3; goto P999; /* 0 */
	case 122: // STATE 388 - fence.pml:103 - [s = 0] (0:402:8 - 1)
		IfNotBlocked
		reached[0][388] = 1;
		(trpt+1)->bup.ovals = grab_ints(8);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->s);
		((P0 *)_this)->s = 0;
#ifdef VAR_RANGES
		logval("leader:s", ((int)((P0 *)_this)->s));
#endif
		;
		/* merge: shown = 0(402, 389, 402) */
		reached[0][389] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->shown);
		((P0 *)_this)->shown = 0;
#ifdef VAR_RANGES
		logval("leader:shown", ((int)((P0 *)_this)->shown));
#endif
		;
		/* merge: passed = 0(402, 390, 402) */
		reached[0][390] = 1;
		(trpt+1)->bup.ovals[2] = ((int)((P0 *)_this)->passed);
		((P0 *)_this)->passed = 0;
#ifdef VAR_RANGES
		logval("leader:passed", ((int)((P0 *)_this)->passed));
#endif
		;
		/* merge: wrote = 0(402, 391, 402) */
		reached[0][391] = 1;
		(trpt+1)->bup.ovals[3] = ((int)((P0 *)_this)->wrote);
		((P0 *)_this)->wrote = 0;
#ifdef VAR_RANGES
		logval("leader:wrote", ((int)((P0 *)_this)->wrote));
#endif
		;
		/* merge: statements = 0(402, 392, 402) */
		reached[0][392] = 1;
		(trpt+1)->bup.ovals[4] = ((int)((P0 *)_this)->statements);
		((P0 *)_this)->statements = 0;
#ifdef VAR_RANGES
		logval("leader:statements", ((int)((P0 *)_this)->statements));
#endif
		;
		/* merge: passed_before = 0(402, 393, 402) */
		reached[0][393] = 1;
		(trpt+1)->bup.ovals[5] = ((int)((P0 *)_this)->passed_before);
		((P0 *)_this)->passed_before = 0;
#ifdef VAR_RANGES
		logval("leader:passed_before", ((int)((P0 *)_this)->passed_before));
#endif
		;
		/* merge: wrote_before = 0(402, 394, 402) */
		reached[0][394] = 1;
		(trpt+1)->bup.ovals[6] = ((int)((P0 *)_this)->wrote_before);
		((P0 *)_this)->wrote_before = 0;
#ifdef VAR_RANGES
		logval("leader:wrote_before", ((int)((P0 *)_this)->wrote_before));
#endif
		;
		/* merge: work = 0(402, 395, 402) */
		reached[0][395] = 1;
		(trpt+1)->bup.ovals[7] = ((int)((P0 *)_this)->work);
		((P0 *)_this)->work = 0;
#ifdef VAR_RANGES
		logval("leader:work", ((int)((P0 *)_this)->work));
#endif
		;
		/* merge: .(goto)(0, 403, 402) */
		reached[0][403] = 1;
		;
		_m = 3; goto P999; /* 8 */
	case 123: // STATE 396 - fence.pml:104 - [((i<2))] (402:0:3 - 1)
		IfNotBlocked
		reached[0][396] = 1;
		if (!((((int)now.i)<2)))
			continue;
		/* merge: seen[i] = 0(402, 397, 402) */
		reached[0][397] = 1;
		(trpt+1)->bup.ovals = grab_ints(3);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->seen[ Index(((int)now.i), 2) ]);
		((P0 *)_this)->seen[ Index(now.i, 2) ] = 0;
#ifdef VAR_RANGES
		logval("leader:seen[i]", ((int)((P0 *)_this)->seen[ Index(((int)now.i), 2) ]));
#endif
		;
		/* merge: term[i] = 0(402, 398, 402) */
		reached[0][398] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->term[ Index(((int)now.i), 2) ]);
		((P0 *)_this)->term[ Index(now.i, 2) ] = 0;
#ifdef VAR_RANGES
		logval("leader:term[i]", ((int)((P0 *)_this)->term[ Index(((int)now.i), 2) ]));
#endif
		;
		/* merge: i = (i+1)(402, 399, 402) */
		reached[0][399] = 1;
		(trpt+1)->bup.ovals[2] = ((int)now.i);
		now.i = (((int)now.i)+1);
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(0, 403, 402) */
		reached[0][403] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 124: // STATE 405 - fence.pml:104 - [i = 0] (0:0:1 - 1)
		IfNotBlocked
		reached[0][405] = 1;
		(trpt+1)->bup.oval = ((int)now.i);
		now.i = 0;
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 125: // STATE 408 - fence.pml:271 - [(0)] (0:0:0 - 1)
		IfNotBlocked
		reached[0][408] = 1;
		if (!(0))
			continue;
		_m = 3; goto P999; /* 0 */
	case 126: // STATE 409 - fence.pml:103 - [s = 0] (0:423:8 - 1)
		IfNotBlocked
		reached[0][409] = 1;
		(trpt+1)->bup.ovals = grab_ints(8);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->s);
		((P0 *)_this)->s = 0;
#ifdef VAR_RANGES
		logval("leader:s", ((int)((P0 *)_this)->s));
#endif
		;
		/* merge: shown = 0(423, 410, 423) */
		reached[0][410] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->shown);
		((P0 *)_this)->shown = 0;
#ifdef VAR_RANGES
		logval("leader:shown", ((int)((P0 *)_this)->shown));
#endif
		;
		/* merge: passed = 0(423, 411, 423) */
		reached[0][411] = 1;
		(trpt+1)->bup.ovals[2] = ((int)((P0 *)_this)->passed);
		((P0 *)_this)->passed = 0;
#ifdef VAR_RANGES
		logval("leader:passed", ((int)((P0 *)_this)->passed));
#endif
		;
		/* merge: wrote = 0(423, 412, 423) */
		reached[0][412] = 1;
		(trpt+1)->bup.ovals[3] = ((int)((P0 *)_this)->wrote);
		((P0 *)_this)->wrote = 0;
#ifdef VAR_RANGES
		logval("leader:wrote", ((int)((P0 *)_this)->wrote));
#endif
		;
		/* merge: statements = 0(423, 413, 423) */
		reached[0][413] = 1;
		(trpt+1)->bup.ovals[4] = ((int)((P0 *)_this)->statements);
		((P0 *)_this)->statements = 0;
#ifdef VAR_RANGES
		logval("leader:statements", ((int)((P0 *)_this)->statements));
#endif
		;
		/* merge: passed_before = 0(423, 414, 423) */
		reached[0][414] = 1;
		(trpt+1)->bup.ovals[5] = ((int)((P0 *)_this)->passed_before);
		((P0 *)_this)->passed_before = 0;
#ifdef VAR_RANGES
		logval("leader:passed_before", ((int)((P0 *)_this)->passed_before));
#endif
		;
		/* merge: wrote_before = 0(423, 415, 423) */
		reached[0][415] = 1;
		(trpt+1)->bup.ovals[6] = ((int)((P0 *)_this)->wrote_before);
		((P0 *)_this)->wrote_before = 0;
#ifdef VAR_RANGES
		logval("leader:wrote_before", ((int)((P0 *)_this)->wrote_before));
#endif
		;
		/* merge: work = 0(423, 416, 423) */
		reached[0][416] = 1;
		(trpt+1)->bup.ovals[7] = ((int)((P0 *)_this)->work);
		((P0 *)_this)->work = 0;
#ifdef VAR_RANGES
		logval("leader:work", ((int)((P0 *)_this)->work));
#endif
		;
		/* merge: .(goto)(0, 424, 423) */
		reached[0][424] = 1;
		;
		_m = 3; goto P999; /* 8 */
	case 127: // STATE 417 - fence.pml:104 - [((i<2))] (423:0:3 - 1)
		IfNotBlocked
		reached[0][417] = 1;
		if (!((((int)now.i)<2)))
			continue;
		/* merge: seen[i] = 0(423, 418, 423) */
		reached[0][418] = 1;
		(trpt+1)->bup.ovals = grab_ints(3);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->seen[ Index(((int)now.i), 2) ]);
		((P0 *)_this)->seen[ Index(now.i, 2) ] = 0;
#ifdef VAR_RANGES
		logval("leader:seen[i]", ((int)((P0 *)_this)->seen[ Index(((int)now.i), 2) ]));
#endif
		;
		/* merge: term[i] = 0(423, 419, 423) */
		reached[0][419] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->term[ Index(((int)now.i), 2) ]);
		((P0 *)_this)->term[ Index(now.i, 2) ] = 0;
#ifdef VAR_RANGES
		logval("leader:term[i]", ((int)((P0 *)_this)->term[ Index(((int)now.i), 2) ]));
#endif
		;
		/* merge: i = (i+1)(423, 420, 423) */
		reached[0][420] = 1;
		(trpt+1)->bup.ovals[2] = ((int)now.i);
		now.i = (((int)now.i)+1);
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		/* merge: .(goto)(0, 424, 423) */
		reached[0][424] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 128: // STATE 426 - fence.pml:104 - [i = 0] (0:0:1 - 1)
		IfNotBlocked
		reached[0][426] = 1;
		(trpt+1)->bup.oval = ((int)now.i);
		now.i = 0;
#ifdef VAR_RANGES
		logval("i", ((int)now.i));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 129: // STATE 429 - fence.pml:275 - [-end-] (0:0:0 - 1)
		IfNotBlocked
		reached[0][429] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */
	case  _T5:	/* np_ */
		if (!((!(trpt->o_pm&4) && !(trpt->tau&128))))
			continue;
		/* else fall through */
	case  _T2:	/* true */
		_m = 3; goto P999;
#undef rand
	}

