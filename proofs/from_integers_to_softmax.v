(* Page 14, "From integers to softmax"
   (notebooks/sparse_universality/from_integers_to_softmax.ipynb).
   Lemmas 14.4 and 14.5, Proposition 14.7. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions exponential.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.


(* Lemma 14.4 (Leak). *)
Section Leak.
Variables (S : realDomainType) (R : realFieldType) (e : S -> R).
Hypothesis e_pos : forall x, 0 < e x.
Hypothesis e_add : forall x y, e (x + y) = e x * e y.
Hypothesis e_mono : forall x y, x <= y -> e x <= e y.

Theorem leak n (score : 'I_n -> S) (group : {set 'I_n}) (lambda zeta : S) :
  0 <= lambda -> 0 < zeta -> (exists i, i \in group) ->
  (forall i j, i \in group -> j \notin group -> score j + zeta <= score i) ->
  \sum_(j | j \notin group) softmax e (fun k => lambda * score k) j <= (n - 1)%:R * e (- (lambda *
    zeta)).
Proof.
move=> l0 _ [i ig] lead; set q := e _.
pose u k := e (lambda * score k).
have q0 : 0 <= q by apply/ltW/e_pos.
have u0 k : 0 < u k by apply: e_pos.
have s0 : 0 < \sum_k u k.
  by rewrite (bigD1 i) //= ltr_paddr // sumr_ge0 // => k _; apply: ltW.
(* each of the others has at most q times the weight of a member, and that is at most 1 *)
apply: le_trans (_ : \sum_(j | j \notin group) q <= _).
  apply: ler_sum => j jg; rewrite /softmax -/(u j) ler_pdivr_mulr //.
  apply: le_trans (_ : q * u i <= _).
    rewrite -e_add; apply: e_mono; rewrite addrC -mulrBr ler_wpmul2l //.
    by rewrite ler_subr_addr lead.
  by rewrite ler_wpmul2l // (bigD1 i) //= ler_addl sumr_ge0 // => k _; apply: ltW.
(* there are at most n - 1 others *)
rewrite sumr_const -[q *+ _]mulr_natl ler_wpmul2r // ler_nat.
rewrite leq_subRL; last by apply: leq_ltn_trans (ltn_ord i).
apply: leq_trans (_ : #|group| + #|~: group| <= _)%N; last by rewrite cardsC card_ord.
rewrite leq_add //; first by apply/card_gt0P; exists i.
by apply: subset_leq_card; apply/subsetP => j; rewrite !inE.
Qed.
End Leak.
(* In particular for exp. *)
Corollary leak_exp (R : realFieldType) (exp : R -> R) n (score : 'I_n -> R) (group : {set 'I_n})
  (lambda zeta : R) : exponential exp -> 0 <= lambda -> 0 < zeta -> (exists i, i \in group) ->
  (forall i j, i \in group -> j \notin group -> score j + zeta <= score i) ->
  \sum_(j | j \notin group) softmax exp (fun k => lambda * score k) j <=
    (n - 1)%:R * exp (- (lambda * zeta)).
Proof.
move=> expE; apply: leak; first exact: exp_gt0.
  exact: expD.
by move=> x y; rewrite (exp_le expE).
Qed.
(* scores 1 and 0, powers of 2 for exponentials, lambda = 3: the second gets at most 1/8 *)
Example leak_2 (a := fun k : 'I_2 => (k == ord0)%:R : int) :
  \sum_(j | j \notin [set ord0]) softmax (fun x : int => 2%:R ^ x : rat) (fun k => 3%:R * a k) j
    <= (2 - 1)%:R * 2%:R ^ (- (3%:R * 1)).
Proof.
apply: leak => //= [x|x y|x y xy||i j /set1P ->].
- exact: exprz_gt0.
- exact: expfzDr.
- by rewrite ler_eexpz2l.
- by exists ord0; rewrite inE.
by rewrite inE /a => /negbTE ->.
Qed.

Section Relu.
Variable R : realFieldType.
(* Lemma 14.5 (Ramps), (14.7). *)
Section Ramps.
Variables (a b c1 c2 ep : R).
Hypothesis ep0 : 0 < ep.
Hypothesis epc : ep <= c2 - c1.
Let s1 := (a * c1 + b) / ep.
Let s2 := - (a * (c2 - ep) + b) / ep.
Definition four x := s1 * relu (x - c1 + ep) + (a - s1) * relu (x - c1)
  + (s2 - a) * relu (x - c2 + ep) - s2 * relu (x - c2).
Definition jump x := if (c1 <= x) && (x < c2) then a * x + b else 0.
Lemma s1ep : s1 * ep = a * c1 + b. Proof. by rewrite /s1 divfK ?gt_eqF. Qed.
Lemma s2ep : s2 * ep = - (a * (c2 - ep) + b). Proof. by rewrite /s2 divfK ?gt_eqF. Qed.

(* two units in a row: the first climbs, the second bends *)
Lemma climb s y : s * (y + ep) + (a - s) * y = a * y + s * ep.
Proof. by rewrite mulrDr mulrBl addrC -addrA addKr. Qed.
Lemma descend s z : (s - a) * (z + ep) - s * z = s * ep - a * (z + ep).
Proof. by rewrite mulrBl mulrDr addrAC [s * z + _]addrC addrK. Qed.
Lemma arg_le x c : (x - c + ep <= 0) = (x <= c - ep).
Proof. by rewrite addrAC subr_le0 -ler_subr_addr. Qed.
Lemma arg_ge x c : (0 <= x - c + ep) = (c - ep <= x).
Proof. by rewrite addrAC subr_ge0 ler_subl_addr. Qed.

Theorem ramps x : ~~ ((c1 - ep <= x) && (x < c1)) -> ~~ ((c2 - ep < x) && (x < c2)) ->
  four x = jump x.
Proof.
have c12 : c1 <= c2 - ep by rewrite ler_subr_addl -ler_subr_addr.
have c2e : c2 - ep < c2 by rewrite ltr_subl_addr ltr_addl.
have ce : c1 - ep < c1 by rewrite ltr_subl_addr ltr_addl.
rewrite /four /jump !negb_and -!leNgt -ltNge.
(* below the first ramp all four units are zero *)
case: (ltP x (c1 - ep)) => [lt _ _|ge /= c1x].
  have xc1 := lt_trans lt ce; have xc2 := lt_le_trans xc1 c12.
  have n1 : x - c1 + ep <= 0 by rewrite arg_le ltW.
  have n2 : x - c1 <= 0 by rewrite subr_le0 ltW.
  have n3 : x - c2 + ep <= 0 by rewrite arg_le ltW.
  have n4 : x - c2 <= 0 by rewrite subr_le0 ltW // (lt_trans xc2).
  by rewrite !relu_neg // !mulr0 !addr0 subr0 [c1 <= x]leNgt xc1.
(* from c_1 on the first two units give a x + b *)
have first : s1 * relu (x - c1 + ep) + (a - s1) * relu (x - c1) = a * x + b.
  by rewrite !relu_pos ?arg_ge ?subr_ge0 // climb s1ep addrA -mulrDr subrK.
rewrite first c1x /=; case: (ltP x c2) => [lt|c2x _].
  (* up to c_2 - epsilon the other two are zero *)
  rewrite orbF => xc2; rewrite !relu_neg ?arg_le ?subr_le0 ?(ltW lt) //.
  by rewrite !mulr0 subr0 addr0.
(* from c_2 on they take a x + b away *)
rewrite !relu_pos ?arg_ge ?subr_ge0 ?(le_trans (ltW c2e)) // -addrA descend s2ep.
have -> : x - c2 + ep = x - (c2 - ep) by rewrite opprB addrAC -addrA.
by rewrite -opprD [a * (c2 - ep) + b + _]addrAC -mulrDr [c2 - ep + _]addrC subrK subrr.
Qed.
End Ramps.
End Relu.
(* a = 0, b = 1 on [0, 1) with ramps of 1/4, at 1/2 *)
Example ramps_half : four 0 1 0 1 4%:R^-1 (2%:R^-1 : rat) = 1.
Proof. by rewrite ramps. Qed.


(* Proposition 14.7 (Order). *)
Section OrderOfLayers.
Variables (R : realFieldType) (d : nat) (Q : eqType).     (* Q: the pairs of a grid input and a
  token *)
Variables (u : 'cV[R]_d) (id : Q -> int) (row A : Q -> 'rV[R]_d).
Local Notation number := (number u).
Hypothesis id_row : forall q, number (row q) = (id q)%:~R.     (* the integer row *)
Hypothesis above : forall q q', `|number (A q)| + 1 <= (id q')%:~R.
Let quarter : R := 4%:R^-1.
Let eighth : R := 8%:R^-1.
(* (14.7) for the jump to 1 on [i - 1/2, i + 1/2), with ramp 1/4 *)
Definition psi (i x : R) := four 0 1 (i - 2%:R^-1) (i + 2%:R^-1) quarter x.
Definition hidden (i x : R) := [:: relu (x - (i - 2%:R^-1) + quarter); relu (x - (i - 2%:R^-1));
  relu (x - (i + 2%:R^-1) + quarter); relu (x - (i + 2%:R^-1))].
Definition value_layer z q := z + psi (id q)%:~R (number z) *: (A q - row q).

Lemma number_layer z q :
  number (value_layer z q) = number z + psi (id q)%:~R (number z) * (number (A q) - number (row q)).
Proof. by rewrite /value_layer /number mulmxDl -scalemxAl mulmxBl !mxE. Qed.

(* halves and quarters in eighths *)
Lemma eighth_gt0 : 0 < eighth. Proof. by rewrite invr_gt0 ltr0n. Qed.
Lemma one_eighths : 1 = 8%:R * eighth. Proof. by rewrite mulfV // pnatr_eq0. Qed.
Lemma half_eighths : 2%:R^-1 = 4%:R * eighth.
Proof.
have two : 2%:R != 0 :> R by rewrite pnatr_eq0.
by apply: (mulfI two); rewrite mulfV // mulrA -natrM -one_eighths.
Qed.
Lemma quarter_eighths : quarter = 2%:R * eighth.
Proof.
have four : 4%:R != 0 :> R by rewrite pnatr_eq0.
by apply: (mulfI four); rewrite mulfV // mulrA -natrM -one_eighths.
Qed.
(* up to i - 1 + 1/8 all four arguments are negative *)
Lemma seven_eighths : 7%:R * eighth = 1 - eighth.
Proof.
apply/eqP; rewrite eq_sym subr_eq -[X in _ + X]mul1r -mulrDl -mulrSr.
by rewrite -one_eighths.
Qed.
Lemma all_zero i x : x <= i - 1 + eighth -> hidden i x = nseq 4 0.
Proof.
have e0 := eighth_gt0; move=> xi.
have y0 : x - i <= - (7%:R * eighth).
  by rewrite ler_subl_addl seven_eighths opprB [eighth - 1]addrC addrA.
have arg (c : R) : c <= 7%:R * eighth -> relu (x - i + c) = 0.
  by move=> c7; rewrite relu_neg // -[X in _ <= X](addNr (7%:R * eighth)) ler_add.
have c1 : 2%:R^-1 + quarter <= 7%:R * eighth.
  by rewrite half_eighths quarter_eighths -mulrDl -natrD ler_pmul2r // ler_nat.
have c2 : 2%:R^-1 <= 7%:R * eighth by rewrite half_eighths ler_pmul2r // ler_nat.
have c3 : quarter - 2%:R^-1 <= 7%:R * eighth.
  apply: le_trans c2; rewrite ler_subl_addr half_eighths quarter_eighths.
  by rewrite -mulrDl -natrD ler_pmul2r // ler_nat.
have c4 : - 2%:R^-1 <= 7%:R * eighth.
  by apply: le_trans c2; rewrite ge0_cp // invr_ge0 ler0n.
rewrite /hidden; have -> : x - (i - 2%:R^-1) + quarter = x - i + (2%:R^-1 + quarter).
  by rewrite opprB [_ - i]addrC !addrA.
have -> : x - (i - 2%:R^-1) = x - i + 2%:R^-1 by rewrite opprB [_ - i]addrC addrA.
have -> : x - (i + 2%:R^-1) + quarter = x - i + (quarter - 2%:R^-1).
  by rewrite opprD !addrA addrAC.
have -> : x - (i + 2%:R^-1) = x - i + - 2%:R^-1 by rewrite opprD addrA.
by rewrite !arg.
Qed.
(* then the layer leaves the token as it is *)
Lemma waits z q : hidden (id q)%:~R (number z) = nseq 4 0 -> value_layer z q = z.
Proof.
by case=> h1 h2 h3 h4; rewrite /value_layer /psi /four h1 h2 h3 h4 !mulr0 !addr0 subr0 scale0r
  addr0.
Qed.
(* at its own token the layer has psi = 1 *)
Lemma serves (i x : R) : `|x - i| <= eighth -> psi i x = 1.
Proof.
have e0 := eighth_gt0; rewrite ler_distl => /andP[low up].
have q0 : 0 < quarter by rewrite quarter_eighths mulr_gt0 ?ltr0n.
have h0 : eighth < 2%:R^-1.
  by rewrite half_eighths -[X in X < _]mul1r ltr_pmul2r // (ltr_nat R 1).
have lo : i - 2%:R^-1 <= x by rewrite (le_trans _ low) // ler_add2l ler_opp2 ltW.
have hi : x <= i + 2%:R^-1 - quarter.
  rewrite (le_trans up) // -addrA ler_add2l half_eighths quarter_eighths -mulrBl -natrB //.
  by rewrite -[X in X <= _]mul1r ler_pmul2r // (ler_nat R 1).
have hi' : x < i + 2%:R^-1 by apply: le_lt_trans hi _; rewrite ltr_subl_addr ltr_addl.
rewrite /psi ramps //.
- by rewrite /jump lo hi' mul0r add0r.
- rewrite opprD opprK addrACA subrr add0r half_eighths quarter_eighths -mulrDl -natrD.
  by rewrite ler_pmul2r // ler_nat.
- by rewrite negb_and -!leNgt lo orbT.
by rewrite negb_and -!leNgt hi.
Qed.

Theorem order (s : seq Q) q z : sorted (fun q q' => id q' < id q) s -> q \in s ->
  `|number z - (id q)%:~R| <= eighth ->
  forall s1 q' s2, s = s1 ++ q' :: s2 -> q' != q ->
    hidden (id q')%:~R (number (foldl value_layer z s1)) = nseq 4 0.
Proof.
have trans : transitive (fun q q' => id q' < id q) by move=> b a c ab bc; apply: lt_trans bc ab.
rewrite (sorted_pairwise trans) => sorted_s qs near.
(* before its layer a token waits; after it, its number is that of A up to the same error *)
pose done_ s1 := if q \in s1 then
    number (foldl value_layer z s1) = number (A q) + (number z - (id q)%:~R)
  else foldl value_layer z s1 = z.
have zero s1 q' s2 : s = s1 ++ q' :: s2 -> q' != q -> done_ s1 ->
    hidden (id q')%:~R (number (foldl value_layer z s1)) = nseq 4 0.
  move=> sE ne; rewrite /done_; move: qs sorted_s; rewrite {}sE mem_cat inE eq_sym (negbTE ne) /=.
  rewrite pairwise_cat /= => + /and3P[_ _ /andP[/allP later _]].
  case: ifP => [_ _ ->|_ /= qs2 ->]; apply: all_zero.
    apply: ler_add; last by apply: le_trans near; apply: ler_norm.
    by rewrite ler_subr_addr (le_trans _ (above q q')) // ler_add2r ler_norm.
  have qq' := later _ qs2; move: near; rewrite ler_distl => /andP[_ up].
  apply: le_trans up _; rewrite ler_add2r ler_subr_addr.
  by rewrite -[1]/(1%:~R) -intrD ler_int lez_addr1.
have all_done : forall s1 s2, s = s1 ++ s2 -> done_ s1.
  elim/last_ind => [|s1 q' IH] s2 sE //; rewrite cat_rcons in sE; have d1 := IH _ sE.
  rewrite /done_ foldl_rcons mem_rcons inE; case: (q =P q') => [qq'|/eqP ne] /=; last first.
    rewrite eq_sym in ne; by rewrite waits ?(zero _ _ _ sE ne) //; apply: d1.
  move: sorted_s d1; rewrite sE pairwise_cat -qq' => /and3P[/allrelP before _ _].
  rewrite /done_; case: ifP => [qs1|_ ->]; first by have := before _ _ qs1 (mem_head _ _);
    rewrite ltxx.
  by rewrite number_layer serves // mul1r id_row addrCA.
by move=> s1 q' s2 sE ne; apply: (zero s1 q' s2 sE ne); apply: all_done sE.
Qed.
End OrderOfLayers.
(* two tokens with ids 3 and 2, wanted rows 0 *)
Example order_2 : hidden 3%:~R (number (const_mx 1 : 'cV[rat]_1) (const_mx 2%:R)) = nseq 4 0.
Proof.
have := @order _ 1 _ (const_mx 1 : 'cV[rat]_1) (fun q : bool => if q then 3 else 2)
  (fun q => const_mx (if q then 3%:R else 2%:R)) (fun _ => 0) _ _ [:: true;
    false] false (const_mx 2%:R).
have num c : number (const_mx 1 : 'cV[rat]_1) (const_mx c) = c.
  by rewrite /number mxE big_ord_recl big_ord0 !mxE mulr1 addr0.
rewrite !num => /(_ _ _ isT isT _ [::] true [:: false] erefl isT) /=; rewrite num; apply=> //.
- by case; rewrite num.
- by move=> q q'; rewrite normr0; case: q'.
Qed.

