	switch (t->back) {
	default: Uerror("bad return move");
	case  0: goto R999; /* nothing to undo */

		 /* PROC :init: */

	case 3: // STATE 1
		;
		((P2 *)_this)->_3_29_n = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 5: // STATE 3
		;
		;
		delproc(0, now._nr_pr-1);
		;
		goto R999;

	case 6: // STATE 4
		;
		((P2 *)_this)->_3_29_n = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 8: // STATE 11
		;
		;
		delproc(0, now._nr_pr-1);
		;
		goto R999;

	case 9: // STATE 16
		;
		p_restor(II);
		;
		;
		goto R999;

		 /* PROC failing_over */

	case 10: // STATE 3
		;
		((P1 *)_this)->who = trpt->bup.ovals[1];
		now.failovers = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 11: // STATE 5
		;
		now.ended[ Index(((P1 *)_this)->who, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 12: // STATE 7
		;
		now.shared[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 13: // STATE 9
		;
		now.exclusive[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 14: // STATE 18
		;
		now.each = trpt->bup.ovals[1];
		now.turnstile[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 15: // STATE 18
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 16: // STATE 26
		;
		((P1 *)_this)->who = trpt->bup.ovals[1];
		now.each = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 17: // STATE 32
		;
		now.each = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 19: // STATE 39
		;
		now.each = trpt->bup.ovals[2];
		now.doubt[ Index(now.each, 2) ] = trpt->bup.ovals[1];
		now.fence[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 3);
		goto R999;

	case 20: // STATE 39
		;
		now.each = trpt->bup.ovals[1];
		now.doubt[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 21: // STATE 39
		;
		now.each = trpt->bup.ovals[1];
		now.doubt[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 22: // STATE 45
		;
		((P1 *)_this)->who = trpt->bup.oval;
		;
		goto R999;

	case 23: // STATE 50
		;
		p_restor(II);
		;
		;
		goto R999;

		 /* PROC leader */

	case 24: // STATE 7
		;
		((P0 *)_this)->wrote_before = trpt->bup.ovals[6];
		((P0 *)_this)->passed_before = trpt->bup.ovals[5];
		((P0 *)_this)->statements = trpt->bup.ovals[4];
		((P0 *)_this)->wrote = trpt->bup.ovals[3];
		((P0 *)_this)->passed = trpt->bup.ovals[2];
		((P0 *)_this)->shown = trpt->bup.ovals[1];
		((P0 *)_this)->s = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 7);
		goto R999;

	case 25: // STATE 10
		;
		now.i = trpt->bup.ovals[1];
		((P0 *)_this)->seen[ Index(now.i, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 26: // STATE 17
		;
		now.ended[ Index(((P0 *)_this)->me, 2) ] = trpt->bup.ovals[1];
		now.i = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 27: // STATE 20
		;
		now.acquisitions = trpt->bup.oval;
		;
		goto R999;

	case 28: // STATE 24
		;
		((P0 *)_this)->work = trpt->bup.oval;
		;
		goto R999;

	case 29: // STATE 31
		;
		((P0 *)_this)->s = trpt->bup.oval;
		;
		goto R999;

	case 30: // STATE 33
		;
		((P0 *)_this)->s = trpt->bup.oval;
		;
		goto R999;
;
		
	case 31: // STATE 36
		goto R999;

	case 32: // STATE 40
		;
		now.turnstile[ Index(((P0 *)_this)->s, 2) ] = trpt->bup.oval;
		;
		goto R999;
;
		
	case 33: // STATE 44
		goto R999;

	case 34: // STATE 48
		;
		now.exclusive[ Index(((P0 *)_this)->s, 2) ] = trpt->bup.oval;
		;
		goto R999;
;
		;
		;
		;
		
	case 37: // STATE 54
		;
		now.ended[ Index(now.other, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 38: // STATE 56
		;
		now.shared[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 39: // STATE 58
		;
		now.exclusive[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 40: // STATE 67
		;
		now.each = trpt->bup.ovals[1];
		now.turnstile[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 41: // STATE 67
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 42: // STATE 78
		;
		now.other = trpt->bup.ovals[1];
		now.each = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 43: // STATE 78
		;
		now.other = trpt->bup.oval;
		;
		goto R999;

	case 44: // STATE 84
		;
		now.other = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 46: // STATE 89
		;
		now.shared[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 47: // STATE 91
		;
		now.exclusive[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 48: // STATE 100
		;
		now.each = trpt->bup.ovals[1];
		now.turnstile[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 49: // STATE 100
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 50: // STATE 106
		;
		now.each = trpt->bup.oval;
		;
		goto R999;
;
		
	case 51: // STATE 113
		goto R999;

	case 52: // STATE 125
		;
		((P0 *)_this)->work = trpt->bup.ovals[6];
		now.shut[ Index(((P0 *)_this)->s, 2) ] = trpt->bup.ovals[5];
		now.owner[ Index(((((P0 *)_this)->s*((3+(4*1))+1))+now.fence[ Index(((P0 *)_this)->s, 2) ]), 16) ] = trpt->bup.ovals[4];
		((P0 *)_this)->term[ Index(((P0 *)_this)->s, 2) ] = trpt->bup.ovals[3];
		now.doubt[ Index(((P0 *)_this)->s, 2) ] = trpt->bup.ovals[2];
		now.fence[ Index(((P0 *)_this)->s, 2) ] = trpt->bup.ovals[1];
		now.before[ Index(((P0 *)_this)->s, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 7);
		goto R999;

	case 53: // STATE 127
		;
		now.shared[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 54: // STATE 129
		;
		now.exclusive[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 55: // STATE 138
		;
		now.each = trpt->bup.ovals[1];
		now.turnstile[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 56: // STATE 138
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 57: // STATE 144
		;
		now.each = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 59: // STATE 149
		;
		now.shared[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 60: // STATE 151
		;
		now.exclusive[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 61: // STATE 160
		;
		now.each = trpt->bup.ovals[1];
		now.turnstile[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 62: // STATE 160
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 63: // STATE 166
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 64: // STATE 176
		;
		((P0 *)_this)->wrote_before = trpt->bup.ovals[2];
		((P0 *)_this)->passed_before = trpt->bup.ovals[1];
		((P0 *)_this)->statements = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 3);
		goto R999;

	case 65: // STATE 178
		;
		((P0 *)_this)->s = trpt->bup.oval;
		;
		goto R999;

	case 66: // STATE 180
		;
		((P0 *)_this)->s = trpt->bup.oval;
		;
		goto R999;

	case 67: // STATE 184
		;
		((P0 *)_this)->wrote = trpt->bup.oval;
		;
		goto R999;
;
		
	case 68: // STATE 186
		goto R999;
;
		;
		
	case 70: // STATE 192
		;
		now.i = trpt->bup.ovals[2];
		((P0 *)_this)->shown = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->shown = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 3);
		goto R999;

	case 71: // STATE 195
		;
		now.i = trpt->bup.ovals[1];
		((P0 *)_this)->seen[ Index(now.i, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 72: // STATE 201
		;
		now.i = trpt->bup.oval;
		;
		goto R999;
;
		
	case 73: // STATE 204
		goto R999;
;
		
	case 74: // STATE 206
		goto R999;

	case 75: // STATE 210
		;
		now.shared[ Index(((P0 *)_this)->s, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 76: // STATE 212
		;
	/* 0 */	((P0 *)_this)->s = trpt->bup.oval;
		;
		;
		goto R999;

	case 77: // STATE 214
		;
		now.shared[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 78: // STATE 216
		;
		now.exclusive[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 79: // STATE 225
		;
		now.each = trpt->bup.ovals[1];
		now.turnstile[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 80: // STATE 225
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 81: // STATE 231
		;
		now.each = trpt->bup.oval;
		;
		goto R999;
;
		
	case 82: // STATE 237
		goto R999;

	case 83: // STATE 240
		;
	/* 0 */	((P0 *)_this)->s = trpt->bup.oval;
		;
		;
		goto R999;

	case 84: // STATE 242
		;
		now.shared[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 85: // STATE 244
		;
		now.exclusive[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 86: // STATE 253
		;
		now.each = trpt->bup.ovals[1];
		now.turnstile[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 87: // STATE 253
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 88: // STATE 259
		;
		now.each = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 90: // STATE 264
		;
	/* 0 */	((P0 *)_this)->s = trpt->bup.oval;
		;
		;
		goto R999;

	case 91: // STATE 266
		;
		now.shared[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 92: // STATE 268
		;
		now.exclusive[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 93: // STATE 277
		;
		now.each = trpt->bup.ovals[1];
		now.turnstile[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 94: // STATE 277
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 95: // STATE 283
		;
		now.each = trpt->bup.oval;
		;
		goto R999;
;
		
	case 96: // STATE 290
		goto R999;

	case 97: // STATE 288
		;
		((P0 *)_this)->wrote = trpt->bup.ovals[1];
		((P0 *)_this)->passed = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 98: // STATE 297
		;
		now.i = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->wrote = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;
;
		;
		
	case 100: // STATE 304
		;
		now.i = trpt->bup.ovals[1];
		now.shared[ Index(now.i, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 101: // STATE 304
		;
		now.i = trpt->bup.oval;
		;
		goto R999;

	case 102: // STATE 313
		;
		((P0 *)_this)->passed_before = trpt->bup.ovals[3];
		((P0 *)_this)->passed = trpt->bup.ovals[2];
		((P0 *)_this)->wrote = trpt->bup.ovals[1];
		now.i = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 4);
		goto R999;

	case 103: // STATE 316
		;
		now.i = trpt->bup.oval;
		;
		goto R999;
;
		;
		;
		
	case 105: // STATE 318
		goto R999;

	case 106: // STATE 328
		;
		now.i = trpt->bup.ovals[1];
		now.shut[ Index(now.i, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 107: // STATE 328
		;
		now.i = trpt->bup.oval;
		;
		goto R999;

	case 108: // STATE 334
		;
		now.i = trpt->bup.oval;
		;
		goto R999;

	case 109: // STATE 336
		;
		now.shared[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 110: // STATE 338
		;
		now.exclusive[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 111: // STATE 347
		;
		now.each = trpt->bup.ovals[1];
		now.turnstile[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 112: // STATE 347
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 113: // STATE 353
		;
		now.each = trpt->bup.oval;
		;
		goto R999;
;
		
	case 114: // STATE 357
		goto R999;
;
		;
		
	case 116: // STATE 362
		;
		now.shared[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 117: // STATE 364
		;
		now.exclusive[ Index(now.each, 2) ] = trpt->bup.oval;
		;
		goto R999;

	case 118: // STATE 373
		;
		now.each = trpt->bup.ovals[1];
		now.turnstile[ Index(now.each, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 119: // STATE 373
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 120: // STATE 379
		;
		now.each = trpt->bup.oval;
		;
		goto R999;

	case 121: // STATE 383
		;
	/* 0 */	((P0 *)_this)->passed = trpt->bup.oval;
		;
		;
		goto R999;

	case 122: // STATE 395
		;
		((P0 *)_this)->work = trpt->bup.ovals[7];
		((P0 *)_this)->wrote_before = trpt->bup.ovals[6];
		((P0 *)_this)->passed_before = trpt->bup.ovals[5];
		((P0 *)_this)->statements = trpt->bup.ovals[4];
		((P0 *)_this)->wrote = trpt->bup.ovals[3];
		((P0 *)_this)->passed = trpt->bup.ovals[2];
		((P0 *)_this)->shown = trpt->bup.ovals[1];
		((P0 *)_this)->s = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 8);
		goto R999;

	case 123: // STATE 399
		;
		now.i = trpt->bup.ovals[2];
		((P0 *)_this)->term[ Index(now.i, 2) ] = trpt->bup.ovals[1];
		((P0 *)_this)->seen[ Index(now.i, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 3);
		goto R999;

	case 124: // STATE 405
		;
		now.i = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 126: // STATE 416
		;
		((P0 *)_this)->work = trpt->bup.ovals[7];
		((P0 *)_this)->wrote_before = trpt->bup.ovals[6];
		((P0 *)_this)->passed_before = trpt->bup.ovals[5];
		((P0 *)_this)->statements = trpt->bup.ovals[4];
		((P0 *)_this)->wrote = trpt->bup.ovals[3];
		((P0 *)_this)->passed = trpt->bup.ovals[2];
		((P0 *)_this)->shown = trpt->bup.ovals[1];
		((P0 *)_this)->s = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 8);
		goto R999;

	case 127: // STATE 420
		;
		now.i = trpt->bup.ovals[2];
		((P0 *)_this)->term[ Index(now.i, 2) ] = trpt->bup.ovals[1];
		((P0 *)_this)->seen[ Index(now.i, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 3);
		goto R999;

	case 128: // STATE 426
		;
		now.i = trpt->bup.oval;
		;
		goto R999;

	case 129: // STATE 429
		;
		p_restor(II);
		;
		;
		goto R999;
	}

